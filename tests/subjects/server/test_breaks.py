"""Every way in which a server breaks, on every adapter that it can happen to. The table of outcomes is docs/servers.md's.

llama.cpp's adapter meets the same ways in front of its real server, in tests/subjects/llamacpp/test_breaks.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from tests.subjects.runs import Run, result, settings, start
from tests.subjects.text_server import TextServer
from tests.subjects.toy_server import ToyServer, WireFaults

GROUPS = 4
FP = "fp-0.24.0"
TABLE = Path(__file__).parents[3] / "docs" / "servers.md"


@dataclass(frozen=True)
class Adapter:
    """after: completions that are more than one group's, learning included, and fewer than two groups'."""

    start: Callable[[WireFaults], ToyServer]
    after: int


ADAPTERS = {
    "vllm": Adapter(lambda wire: ToyServer(wire=wire), 15),
    "sglang": Adapter(lambda wire: ToyServer(wire=wire), 12),
    "openai": Adapter(lambda wire: ToyServer(wire=wire, plain=True, fingerprint=FP), 15),
    "openai-text": Adapter(lambda wire: TextServer(wire=wire, fingerprint=FP), 5),
}

BROKEN = {
    "dies": (WireFaults(dies=True), "the connection broke"),
    "stalls": (WireFaults(stalls=3.0), "no answer for 1 s"),
    "truncates": (WireFaults(truncates=True), "the connection broke"),
    "error": (WireFaults(status=500), 'error 500: {"error": "it is broken"}'),
    "another prompt's": (WireFaults(other_prompt=True), r"another prompt|tokens were sent and|was counted as"),
    "out of order": (WireFaults(choices=True), r"choices \[1, 0\] came back|the answer has no meta_info"),
    "above 0": (WireFaults(positive=True), "can't be above 0"),
    "another version": (WireFaults(version="0.24.1"), r"its (version|system_fingerprint) changed in mid-run, from "),
    "not JSON": (WireFaults(not_json=True), "isn't JSON"),
    "redirects": (WireFaults(redirect="http://127.0.0.1:1/elsewhere"), "isn't followed"),
}

SPOILT = {
    "NaN": WireFaults(nan=True),
    "null": WireFaults(null=True),
    "fewer": WireFaults(fewer=True),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("breaks") / "sessions.jsonl"
    write_sessions(path, GROUPS, Shape(turns=2, prompt=36, answer=3))
    return path


@pytest.fixture
def run(replaycheck: Run, traces: Path, tmp_path: Path) -> Run:
    asked = settings("score=2", "block=16", "top=160")
    return lambda server, subject, *more: start(replaycheck, subject, server.url, traces, tmp_path, (*asked, *more))


def finding(found: dict[str, Any], code: str) -> dict[str, Any]:
    return next(each for each in found["findings"] if each["code"] == code)


def first_nan(tmp_path: Path) -> dict[str, Any]:
    """The first place in the table of pairs at which a difference is NaN, which isn't null."""
    key = ["trace", "branch", "turn", "position"]
    rows = pq.read_table(tmp_path / "run" / "pairs").select([*key, "dlogp"]).to_pylist()
    places = [{name: row[name] for name in key} for row in rows if row["dlogp"] is not None and isnan(row["dlogp"])]
    return min(places, key=lambda place: tuple(place.values()))


@pytest.mark.parametrize("subject", ADAPTERS)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_server_that_breaks_in_mid_run_leaves_what_was_done(
    run: Run, tmp_path: Path, subject: str, fault: str
) -> None:
    wire, words = BROKEN[fault]
    adapter = ADAPTERS[subject]
    with adapter.start(replace(wire, after=adapter.after)) as server:
        # Short only where it has to run out: a busy machine may take a second for an answer.
        outcome = run(server, subject, *(settings("timeout=1") if wire.stalls else ()))
    assert outcome.code == 4
    assert re.search(words if "|" in words or "\\" in words else re.escape(words), outcome.err), outcome.err
    assert "--resume" in outcome.err
    assert 0 < len(list((tmp_path / "run" / "observations").glob("*.parquet"))) < GROUPS
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("subject", ADAPTERS)
@pytest.mark.parametrize("fault", ["null", "fewer"])
def test_left_out_log_probabilities_prove_nothing_and_are_found(
    run: Run, tmp_path: Path, subject: str, fault: str
) -> None:
    """Of texts the tokens are left, so there it is inconclusive instead of vacuous."""
    with ADAPTERS[subject].start(SPOILT[fault]) as server:
        assert run(server, subject).code == (6 if subject == "openai-text" else 5)
    found = result(tmp_path)
    cell = found["cells"][0]
    assert cell["missing"] == cell["positions"] > 0
    assert cell["unsized"] == (cell["positions"] if subject == "openai-text" else 0)
    assert cell["abs_dlogp"] == {}
    first = finding(found, "RC908")
    assert first["place"] == found["arms"][0]["gaps"]["first_missing"]
    assert f"first in the arm {found['arms'][0]['name']} at trace s0000000, branch 0, turn 0" in first["sentence"]


@pytest.mark.parametrize("subject", ADAPTERS)
def test_nan_is_a_failure_with_its_first_place_and_not_missing(run: Run, tmp_path: Path, subject: str) -> None:
    adapter = ADAPTERS[subject]
    with adapter.start(replace(SPOILT["NaN"], after=adapter.after)) as server:
        assert run(server, subject).code == 1
    found = result(tmp_path)
    cell = found["cells"][0]
    assert cell["not_finite"] > 0
    assert cell["missing"] == 0
    places = [arm["gaps"]["first_nan"] for arm in found["arms"] if arm["gaps"]]
    assert finding(found, "RC907")["place"] == places[0]
    assert first_nan(tmp_path) in places
    assert [each["code"] for each in found["findings"]] == ["RC907"]


def test_the_table_of_outcomes_in_the_documentation_has_every_fault_and_adapter() -> None:
    lines = TABLE.read_text().splitlines()
    head = next(line for line in lines if line.startswith("| the server"))
    for subject in ADAPTERS:
        assert f"`{subject}`" in head
    rows = "\n".join(line for line in lines if line.startswith("| "))
    for fault in (*BROKEN, *SPOILT):
        assert f"| {fault} |" in rows
