"""``replaycheck run --subject llamacpp``: the whole line against the real server, clean, without hits, and with a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from replaycheck.assets import trace_suite
from replaycheck.errors import EngineEnvironmentError, ExitCode, UsageError
from replaycheck.schema.arm import Compiler
from replaycheck.subjects.choose import make_subject
from replaycheck.subjects.protocol import Said, SubjectOptions
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from tests.subjects.llamacpp.proxy import never_cached, proxy, zeroed_state
from tests.subjects.runs import Run, result, settings, start

Serve = Callable[..., LlamaServer]

SCORED = 2
"""Answer tokens a turn: a wrong state shows at the first, and time goes with their number."""

SPLIT = {"ctx-checkpoints": 0, "cache-ram": 0, "parallel": 1}

GROUPS = ("regenerate_and_fork", "one_token_and_full_hit", "edges_64", "edges_128")
"""The shortest of the quick traces; the gates want four."""


def run(replaycheck: Run, url: str, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and result.json of some of the quick traces."""
    traces = folder / "traces.jsonl"
    lines = trace_suite("quick").read_text().splitlines()
    traces.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["group"] in GROUPS))
    asked = (*settings(f"score={SCORED}"), "--workers", 1, *more)
    outcome = start(replaycheck, "llamacpp", url, traces, folder, asked)
    assert (folder / "run" / "result.json").exists(), outcome.err
    return outcome.code, result(folder)


def test_the_real_server_says_the_same_when_it_hits_but_for_its_noise(
    replaycheck: Run, serve: Serve, tmp_path: Path
) -> None:
    code, found = run(replaycheck, serve("kimi-linear").url, tmp_path)
    warm = next(arm for arm in found["arms"] if arm["name"].startswith("warm"))
    assert warm["proven_hits"] == warm["expected_hits"] >= len(GROUPS)
    assert any("no split arm" in note and "split-url" in note for note in found["notes"])
    gates = {gate["name"]: gate for gate in found["gates"]}
    assert gates["the-same-conversation"]["verdict"] == "pass"
    assert gates["the-same-conversation"]["value"]["value"] < 1e-4
    # This build's products have other bits for other batches, and no arm repeats warm's cuts: equal bits can't be decided.
    assert gates["same-when-restored"]["verdict"] == "inconclusive" and code == ExitCode.INCONCLUSIVE


def test_with_a_second_server_the_state_effect_is_exactly_nothing_where_the_grid_effect_is_not(
    replaycheck: Run, serve: Serve, tmp_path: Path
) -> None:
    other = serve("kimi-linear", SPLIT)
    code, found = run(replaycheck, serve("kimi-linear").url, tmp_path, *settings(f"split-url={other.url}"))
    cells = {cell["name"].partition("/")[0]: cell for cell in found["cells"]}
    assert set(cells) == {"grid", "state", "total"}
    largest = {name: differences(tmp_path, cell["name"]) for name, cell in cells.items()}
    assert largest["state"] == 0 < largest["grid"] and largest["total"] > 0
    gates = {gate["name"]: gate["verdict"] for gate in found["gates"]}
    assert gates == {"the-same-conversation": "pass", "same-when-restored": "pass"} and code == ExitCode.PASS


def test_a_zeroed_state_shows_against_split_and_against_cold(replaycheck: Run, serve: Serve, tmp_path: Path) -> None:
    other = serve("mamba2", SPLIT)
    with proxy(serve("mamba2").url, zeroed_state) as url:
        code, found = run(replaycheck, url, tmp_path, *settings(f"split-url={other.url}"))
    state = next(cell["name"] for cell in found["cells"] if cell["name"].startswith("state"))
    assert code == ExitCode.FAIL and differences(tmp_path, state) > 0.1
    gates = {gate["name"]: gate["verdict"] for gate in found["gates"]}
    assert gates == {"the-same-conversation": "fail", "same-when-restored": "fail"}


def test_it_starts_its_own_servers_for_a_file(tiny: Callable[[str], Path]) -> None:
    found = make_subject("llamacpp", SubjectOptions(model=tiny("mamba2"))).describe()
    assert Compiler.SPLIT in found.compilers and not any("assumed" in note for note in found.not_seen)
    attention = make_subject("llamacpp", SubjectOptions(model=tiny("llama"))).describe()
    assert Compiler.SPLIT not in attention.compilers
    assert any("no recurrent state" in note for note in attention.not_seen)
    with pytest.raises(UsageError, match="give a GGUF file"):
        make_subject("llamacpp", SubjectOptions(model=tiny("llama").parent))


def differences(folder: Path, cell: str) -> float:
    """The largest of a log-probability, nat."""
    pairs = pd.concat([pd.read_parquet(part) for part in sorted((folder / "run" / "pairs").glob("*.parquet"))])
    return float(pairs[pairs["cell"] == cell]["dlogp"].abs().max())


def test_no_hits_prove_nothing(replaycheck: Run, serve: Serve, tmp_path: Path) -> None:
    with proxy(serve("mamba2").url, never_cached) as url:
        assert run(replaycheck, url, tmp_path)[0] == ExitCode.VACUOUS


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
