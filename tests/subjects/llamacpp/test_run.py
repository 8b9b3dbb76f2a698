"""``replaycheck run --subject llamacpp``: the whole line against the real server, clean, without hits, and with a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.assets import trace_suite
from replaycheck.errors import EngineEnvironmentError, ExitCode, UsageError
from replaycheck.subjects.choose import make_subject
from replaycheck.subjects.protocol import Said, SubjectOptions
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from tests.subjects.llamacpp.proxy import Spoil, never_cached, proxy, zeroed_state

Run = Callable[..., Any]
Serve = Callable[..., LlamaServer]

SCORED = 2
"""Answer tokens a turn: a wrong state shows at the first, and time goes with their number."""

GROUPS = ("regenerate_and_fork", "one_token_and_full_hit", "edges_64", "edges_128")
"""The shortest of the quick traces; the gates want four."""


def run(replaycheck: Run, url: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and result.json of some of the quick traces."""
    traces, out = folder / "traces.jsonl", folder / "run"
    lines = trace_suite("quick").read_text().splitlines()
    traces.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["group"] in GROUPS))
    asked = ("run", "--subject", "llamacpp", "--url", url, "--subject-option", f"score={SCORED}", "--workers", 1)
    found = replaycheck(*asked, "--traces", traces, "--out", out)
    assert (out / "result.json").exists(), found.err
    return found.code, json.loads((out / "result.json").read_text())


def test_the_real_server_says_the_same_when_it_hits_but_for_its_noise(
    replaycheck: Run, serve: Serve, tmp_path: Path
) -> None:
    code, result = run(replaycheck, serve("kimi-linear").url, tmp_path)
    warm = next(arm for arm in result["arms"] if arm["name"].startswith("warm"))
    assert warm["proven_hits"] >= len(GROUPS)
    gates = {gate["name"]: gate for gate in result["gates"]}
    assert gates["the-same-conversation"]["verdict"] == "pass"
    assert gates["the-same-conversation"]["value"]["value"] < 1e-4
    # This build's products have other bits for other batches, and no arm repeats warm's cuts: equal bits can't be decided.
    assert gates["same-when-restored"]["verdict"] == "inconclusive" and code == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(("spoil", "code"), [(never_cached, ExitCode.VACUOUS), (zeroed_state, ExitCode.FAIL)])
def test_no_hits_prove_nothing_and_a_zeroed_state_is_caught(
    spoil: Spoil, code: ExitCode, replaycheck: Run, serve: Serve, tmp_path: Path
) -> None:
    with proxy(serve("mamba2").url, spoil) as url:
        assert run(replaycheck, url, tmp_path)[0] == code


def test_it_describes_itself(serve: Serve) -> None:
    server = serve("mamba2", {"ctx-size": 2048})
    found = make_subject("llamacpp", SubjectOptions(url=server.url)).describe()
    assert (found.vocabulary, found.said, found.forced) == (144, Said.TOP, True)
    other = serve("mamba2", {"ctx-size": 2048, "parallel": 3})
    assert make_subject("llamacpp", SubjectOptions(url=other.url)).describe().digest != found.digest


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="needs --url"):
        make_subject("llamacpp")
    with pytest.raises(UsageError, match="route=rest"):
        make_subject("llamacpp", SubjectOptions("http://127.0.0.1:9", settings=(("route", "rest"),)))
    with pytest.raises(EngineEnvironmentError, match="is the server up"):
        make_subject("llamacpp", SubjectOptions("http://127.0.0.1:9"))
