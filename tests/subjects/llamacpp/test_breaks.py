"""Every way in which a server breaks, between us and the real one. Other adapters: tests/subjects/server/test_breaks.py.

It has no list of choices that could be out of order. Its answers don't repeat the prompt, but count its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from replaycheck.replay import stage
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from tests.subjects.llamacpp.faulty import faulty
from tests.subjects.runs import Run, result, settings, start
from tests.subjects.toy_server import WireFaults

Serve = Callable[..., LlamaServer]

GROUPS = 4
AFTER: list[int] = []
"""Completions up to the second group, once they were counted: the same in each run."""
MODEL = "mamba2"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Second prompts of 160 tokens, twice the distance that the tests' server keeps checkpoints at."""
    path = tmp_path_factory.mktemp("breaks") / "sessions.jsonl"
    write_sessions(path, GROUPS, Shape(turns=2, prompt=80, answer=3))
    return path


@pytest.fixture
def run(replaycheck: Run, traces: Path, tmp_path: Path) -> Run:
    asked = ("--workers", 1, *settings("score=2"))
    return lambda url, *more: start(replaycheck, "llamacpp", url, traces, tmp_path, (*asked, *more))


def after_a_group(run: Run, server: LlamaServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """Completions of a clean run up to its first stored group, and one more."""
    if AFTER:
        return AFTER[0]
    counts: list[int] = []
    store = stage.write_done
    with faulty(server.url, WireFaults(after=10**9)) as (url, seen), monkeypatch.context() as patched:
        patched.setattr(stage, "write_done", lambda *parts: (counts.append(seen.completions), store(*parts)))
        run(url)
    (tmp_path / "run").rename(tmp_path / "clean")
    AFTER.append(counts[0] + 1)
    return AFTER[0]


@pytest.fixture
def broken(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[WireFaults], Any]:
    """Run with a fault that begins in the second group."""

    def begin(wire: WireFaults) -> Any:
        server = serve(MODEL)
        after = after_a_group(run, server, monkeypatch, tmp_path)
        with faulty(server.url, replace(wire, after=after)) as (url, _):
            # Short only where it has to run out: a busy machine may take a second for an answer.
            return run(url, *(settings("timeout=1") if wire.stalls else ()))

    return begin


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (WireFaults(dies=True), "the connection broke"),
        (WireFaults(stalls=3.0), "no answer for 1 s"),
        (WireFaults(truncates=True), "the connection broke"),
        (WireFaults(status=500), 'error 500: {"error": "it is broken"}'),
        (WireFaults(other_prompt=True), "this is the answer to another prompt"),
        (WireFaults(positive=True), "can't be above 0"),
        (WireFaults(version="b99999"), "its version changed in mid-run, from "),
        (WireFaults(not_json=True), "isn't JSON"),
        (WireFaults(redirect="http://127.0.0.1:1/elsewhere"), "isn't followed"),
    ],
)
def test_a_server_that_breaks_in_mid_run_leaves_what_was_done(
    broken: Callable[[WireFaults], Any], tmp_path: Path, wire: WireFaults, words: str
) -> None:
    outcome = broken(wire)
    assert outcome.code == 4, outcome.err
    assert words in outcome.err
    assert "--resume" in outcome.err
    assert 0 < len(list((tmp_path / "run" / "observations").glob("*.parquet"))) < GROUPS
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("wire", "code"),
    [(WireFaults(null=True), "RC908"), (WireFaults(fewer=True), "RC908"), (WireFaults(nan=True), "RC907")],
)
def test_what_is_no_number_is_found_with_its_first_place(
    broken: Callable[[WireFaults], Any], tmp_path: Path, wire: WireFaults, code: str
) -> None:
    outcome = broken(wire)
    found = result(tmp_path)
    finding = next(each for each in found["findings"] if each["code"] == code)
    assert finding["place"]["position"] is not None
    cell = found["cells"][0]
    assert (cell["not_finite"] > 0) == (code == "RC907")
    assert (0 < cell["missing"] < cell["positions"]) == (code == "RC908")
    assert (outcome.code == 1) == (code == "RC907")
