"""``run --budget``, ``--fail-fast`` and the policies of exit codes, on a subject that computes nothing and adds noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.bench.scale import MANY, ONE_MATRIX
from replaycheck.bench.sessions import write_sessions
from replaycheck.errors import UsageError
from replaycheck.replay import budget
from replaycheck.replay.budget import seconds_of, spread, within_budget
from replaycheck.replay.settings import resolve

SUITE = 'schema = "replaycheck.suite/1"\nname = "sessions"\ntraces = ["sessions.jsonl"]\ngates = ["mine.toml"]\n'
GATE = """schema = "replaycheck.gates/1"
name = "mine"
[[gate]]
name = "worst"
metric = "worst-trace"
scope = {{ effect = "total" }}
bound = {bound}
why = "a test"
admitted_by = "bf16-snapshot"
min_traces = {traces}
"""
SESSIONS = 6
NOISY = "tests.scale.noisy:factory"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    write_sessions(tmp_path / "sessions.jsonl", SESSIONS, MANY)
    (tmp_path / "suite.toml").write_text(SUITE + ONE_MATRIX)
    return tmp_path / "suite.toml"


def gates(folder: Path, bound: float, traces: int = 1) -> Path:
    path = folder / "mine.toml"
    path.write_text(GATE.format(bound=bound, traces=traces))
    return path


def run(replaycheck: Callable[..., Any], suite: Path, *options: object) -> tuple[int, dict[str, Any]]:
    out = suite.parent / "run"
    common = ("--subject", NOISY, "--workers", 1, "--out", out, "--json")
    outcome = replaycheck("run", suite, "--gates", suite.parent / "mine.toml", *common, *options)
    return outcome.code, json.loads(outcome.out) if outcome.out else {"err": outcome.err}


def test_fail_fast_stops_at_the_first_part_keeps_it_and_says_so(replaycheck: Callable[..., Any], suite: Path) -> None:
    gates(suite.parent, bound=1e-5)
    code, result = run(replaycheck, suite, "--fail-fast")
    assert code == 1
    assert result["summary"]["traces"] == 1
    assert len(list((suite.parent / "run" / "pairs").glob("*.parquet"))) == 1
    (note,) = result["notes"]
    assert note.startswith(f"stopped after 1 of {SESSIONS} parts by --fail-fast: gate mine.toml/worst failed in s")


def test_fail_fast_never_stops_on_a_pass(replaycheck: Callable[..., Any], suite: Path) -> None:
    gates(suite.parent, bound=100)
    code, result = run(replaycheck, suite, "--fail-fast")
    assert (code, result["summary"]["traces"], result["notes"]) == (0, SESSIONS, [])


@pytest.mark.parametrize(("options", "code"), [((), 6), (("--inconclusive", "fail"), 1), (("--exit-zero",), 0)])
def test_too_few_traces_exit_as_asked(
    replaycheck: Callable[..., Any], suite: Path, options: tuple[str, ...], code: int
) -> None:
    gates(suite.parent, bound=100, traces=64)
    found, result = run(replaycheck, suite, *options)
    assert (found, result["summary"]["exit_code"]) == (code, 6)
    assert result["gates"][0]["traces_needed"] == 64
    assert "needs 64 traces and has 6" in result["gates"][0]["sentence"]


def test_a_budget_fixes_the_number_of_groups_before_anything_is_judged(
    replaycheck: Callable[..., Any], suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates(suite.parent, bound=100)
    monkeypatch.setattr(budget, "calibrated", lambda settings: (1.0, [30] * SESSIONS))
    code, result = run(replaycheck, suite, "--budget", "100s")
    assert (code, result["summary"]["traces"]) == (0, 3)
    assert result["notes"] == ["3 of 6 groups, spread evenly: --budget fixed their number before anything was judged"]
    assert sorted(path.stem for path in (suite.parent / "run" / "pairs").glob("*")) == [
        "s0000000",
        "s0000002",
        "s0000004",
    ]


def test_a_budget_for_all_changes_nothing_and_one_for_none_is_refused(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates(suite.parent, bound=100)
    settings, _ = resolve(suite, subject=NOISY, gates=[str(suite.parent / "mine.toml")])
    monkeypatch.setattr(budget, "calibrated", lambda settings: (1.0, [30] * SESSIONS))
    assert within_budget(settings, "3m", workers=1) is settings
    assert len(within_budget(settings, "1m", workers=2).groups) == 4
    with pytest.raises(UsageError, match="not even one of the 6 groups fits"):
        within_budget(settings, "29s", workers=1)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_times_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["10", "m", "0s", "-3m", "10 m", "ten"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="90s, 10m"):
        seconds_of(text)


def test_groups_are_spread_over_the_whole_suite() -> None:
    assert spread(6, 6) == [0, 1, 2, 3, 4, 5]
    assert spread(72, 7) == [0, 10, 20, 30, 41, 51, 61]
