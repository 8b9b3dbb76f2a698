"""Where the same run twice has the same bits, mismatches are counted and none is allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck.compare.record import ArmRecording
from replaycheck.gates.load import load_gates
from replaycheck.schema.arm import Arm
from replaycheck.selftest.noisy import recording
from tests import synthetic_result as made
from tests import synthetic_run as syn
from tests.gates.suites import Turns, arms, judged, other_tokens

OVER_RUN = """schema = "replaycheck.gates/1"
name = "mine"
[[gate]]
name = "twice"
metric = "positions-bits-differ"
scope = { effect = "total" }
floor = "run"
factor = 1
why = "no more than running twice"
admitted_by = "bf16-snapshot"
min_traces = 1
"""


def never_noisy(arm: Arm, seed: int) -> ArmRecording:
    """Every arm says what the first one says; warm with its own restores."""
    same, mine = recording(arms()[0], seed), recording(arm, seed)
    turns = [replace(a, restore=b.restore) for a, b in zip(same.turns, mine.turns, strict=True)]
    return replace(mine, turns=tuple(turns))


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(OVER_RUN)
    return path


@pytest.mark.parametrize(("change", "differ", "verdict"), [
    (lambda turns: turns, 0, "pass"),
    (lambda turns: [other_tokens(turns[0], 1e-3, slice(0, 1)), *turns[1:]], 1, "fail"),
])  # fmt: skip
def test_a_deterministic_path_allows_no_mismatch(gates: Path, change: Turns, differ: int, verdict: str) -> None:
    gate = judged(change, [load_gates(str(gates))], never_noisy)["twice"]
    assert (gate.mode, gate.bound, gate.value.value, gate.verdict) == ("exact-zero", 0, differ, verdict)
    if not differ:
        assert gate.value.high == pytest.approx(gate.value.n * (1 - 0.05 ** (1 / gate.value.n)))
        assert "at most" in gate.sentence


def test_without_that_floor_it_is_inconclusive_and_says_what_to_give(gates: Path, tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    (gate,) = made.judged(run, gates=[str(gates)]).gates
    assert (gate.verdict, gate.bound) == ("inconclusive", None)
    assert "no F_run was measured" in gate.sentence and "--floor FILE" in gate.sentence


def test_a_state_error_is_counted_in_roundings(tmp_path: Path) -> None:
    """One cast is 1; half of a state is hundreds."""
    path = tmp_path / "state.toml"
    path.write_text(
        OVER_RUN.replace("positions-bits-differ", "state-error")
        .replace('"total"', '"state"')
        .replace('floor = "run"\nfactor = 1', "bound = 1.001")
    )

    def halved(found: dict[str, ArmRecording]) -> dict[str, ArmRecording]:
        warm = next(one for name, one in found.items() if name.startswith("warm"))
        first, *others = warm.restores
        return syn.in_warm(found, restores=(replace(first, temporal=first.temporal / 2), *others))

    for change, verdict in ((lambda found: found, "pass"), (halved, "fail")):
        run = made.started(tmp_path / verdict)
        made.fill(run, change)
        (gate,) = made.judged(run, gates=[str(path)]).gates
        assert gate.verdict == verdict
        assert gate.value.value is not None
        assert gate.value.value == pytest.approx(1) if verdict == "pass" else gate.value.value > 1000
