"""First divergences: clock, kinds, censoring and tolerance, on recordings where the answer is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from replaycheck.compare.casts import BF16_UNIT, cast
from replaycheck.compare.divergence import divergences, tolerance
from replaycheck.compare.logits import log_softmax
from replaycheck.compare.pairs import pair
from replaycheck.compare.record import ArmRecording
from replaycheck.schema.arm import Cell, Compiler, Effect, PoolDtype
from replaycheck.schema.frames import to_frame
from tests import synthetic_run as syn
from tests.compare.tables import observe

ARMS, CELLS = syn.arms_and_cells()
EXACT, GRID = syn.effect(CELLS, Effect.EXACT), syn.effect(CELLS, Effect.GRID)
FIRST = syn.restored_at(1)  # where the clock of every branch starts


def diverge(cell: Cell, found: dict[str, ArmRecording]) -> pd.DataFrame:
    observations = pa.concat_tables([observe(found[name]) for name in (cell.reference, cell.candidate)])
    pairs = pair(cell, found[cell.reference], found[cell.candidate])
    return to_frame(divergences(pairs, observations, [cell]))


def changed(turn: int, row: int, value: float) -> dict[str, ArmRecording]:
    """Recordings in which warm's logit 0 at one position of trace b is another."""
    found = syn.recordings(ARMS)
    warm = found[EXACT.candidate]
    at = next(i for i, one in enumerate(warm.turns) if one.key == ("b", 0, turn))
    logits = warm.turns[at].logits.copy()
    logits[row, 0] = value
    turns = (*warm.turns[:at], replace(warm.turns[at], logits=logits), *warm.turns[at + 1 :])
    return syn.in_warm(found, turns=turns)


def of(found: pd.DataFrame, kind: str, trace: str = "b") -> pd.Series:
    return found[(found["kind"] == kind) & (found["trace"] == trace)].iloc[0]


def test_without_a_difference_every_branch_is_censored_at_its_last_position() -> None:
    found = diverge(EXACT, syn.recordings(ARMS))
    last = syn.position(syn.TURNS - 1) + syn.SCORED - 1
    assert len(found) == 3 * 3
    assert found["censored"].all()
    assert set(found["position"]) == {last}
    assert set(found["offset_from_restore"]) == {last - FIRST}
    assert found["token_a"].isna().all()


def test_a_large_difference_is_of_all_kinds_at_its_offset_from_the_first_restore() -> None:
    found = diverge(EXACT, changed(turn=2, row=1, value=50.0))
    position = syn.position(2) + 1
    for kind in ("bits", "argmax", "tolerance"):
        row = of(found, kind)
        assert not row["censored"]
        assert (row["turn"], row["position"]) == (2, position)
        assert row["offset_from_restore"] == position - FIRST
    assert of(found, "argmax")["token_b"] == 0
    assert of(found, "bits", trace="a")["censored"]


def test_a_last_bit_is_of_kind_bits_only() -> None:
    value = syn.turns(warm=True)[-2].logits[0, 0]
    found = diverge(EXACT, changed(turn=1, row=0, value=float(np.nextafter(value, np.float32(9)))))
    assert not of(found, "bits")["censored"]
    assert of(found, "argmax")["censored"]
    assert of(found, "tolerance")["censored"]


def test_a_nan_exceeds_any_tolerance() -> None:
    assert not of(diverge(EXACT, changed(turn=1, row=0, value=np.nan)), "tolerance")["censored"]


def test_positions_before_the_first_restore_are_not_counted() -> None:
    assert diverge(EXACT, changed(turn=0, row=0, value=50.0))["censored"].all()


def test_a_turn_without_a_restore_after_the_first_one_counts() -> None:
    found = changed(turn=2, row=0, value=50.0)
    warm = found[EXACT.candidate]
    turns = tuple(replace(one, restore=None) if one.turn == 2 else one for one in warm.turns)
    assert not of(diverge(EXACT, syn.in_warm(found, turns=turns)), "bits")["censored"]


def test_a_branch_that_never_restores_has_no_row() -> None:
    found = syn.recordings(ARMS)
    turns = tuple(replace(one, restore=None) if one.trace == "b" else one for one in found[EXACT.candidate].turns)
    assert set(diverge(EXACT, syn.in_warm(found, turns=turns))["trace"]) == {"a"}


def test_a_grid_cell_counts_every_position_and_has_no_offset() -> None:
    found = diverge(GRID, syn.recordings(ARMS))
    row = of(found, "bits")
    assert not row["censored"]
    assert row["position"] == syn.position(1)  # the first that the synthetic cold arm changes
    assert found["offset_from_restore"].isna().all()


def test_tolerance_of_a_fair_choice_of_eight_is_the_closed_form() -> None:
    turn = replace(syn.turns(warm=False)[0], logits=np.zeros((syn.SCORED, 8), "f4"), tokens=np.zeros(5, "i4"))
    frame = observe(ArmRecording("arm", (turn,), ()))
    expected = BF16_UNIT * (math.log(8) + math.log(8))  # |log p| and the entropy are both log 8
    # A sum of 8 terms in float64, each with three roundings of 1.1e-16.
    assert tolerance(frame) == pytest.approx(np.full(len(frame), expected), rel=1e-14)


def test_rounding_all_log_probabilities_to_bf16_stays_within_the_tolerance_and_comes_near_it() -> None:
    arm = syn.arm(Compiler.COLD)
    table = observe(syn.recording(arm))
    allowed = tolerance(table)
    logits = np.concatenate([turn.logits for turn in sorted(syn.recording(arm).turns, key=lambda turn: turn.key)])
    tokens = table["token"].to_numpy()
    rows = np.arange(len(tokens))
    before = log_softmax(logits).astype(np.float32)
    after = log_softmax(cast(before, PoolDtype.BF16))[rows, tokens]
    moved = np.abs(after - log_softmax(before)[rows, tokens]) / allowed
    # 12 of 32 tokens are lumped into one, which takes at most their share off the entropy; second order is 2^-8.
    assert moved.max() <= 1 + BF16_UNIT
    assert moved.max() > 0.3
