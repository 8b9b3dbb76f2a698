"""Pairs of two arms: equal bits are exactly zero, one changed logit is seen, and saved runs give the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from replaycheck.compare.pairs import pair
from replaycheck.compare.record import ArmRecording
from replaycheck.compare.saved import pair_saved
from replaycheck.errors import InternalError, UsageError
from replaycheck.schema.arm import Effect
from replaycheck.schema.frames import to_frame
from replaycheck.schema.tables import PAIRS
from tests import synthetic_run as syn
from tests.compare.tables import observe

ARMS, CELLS = syn.arms_and_cells()
EXACT, GRID, TOTAL = (syn.effect(CELLS, effect) for effect in (Effect.EXACT, Effect.GRID, Effect.TOTAL))
RECORDINGS = syn.recordings(ARMS)
WARM = RECORDINGS[EXACT.candidate]


def exact(candidate: ArmRecording) -> pd.DataFrame:
    return to_frame(pair(EXACT, RECORDINGS[EXACT.reference], candidate))


def nudged(row: int, token: int, value: float) -> ArmRecording:
    """The warm arm with one logit of its last turn changed."""
    turn = WARM.turns[-1]
    logits = turn.logits.copy()
    logits[row, token] = value
    return replace(WARM, turns=(*WARM.turns[:-1], replace(turn, logits=logits)))


def test_equal_bits_give_exact_zeros() -> None:
    rows = exact(WARM)
    assert rows["bits_equal"].all()
    assert (rows[["dlogp", "kl"]] == 0).all(axis=None)
    assert not rows["flip"].any()


def test_one_bit_of_one_logit_is_seen_at_its_position_only() -> None:
    turn = WARM.turns[-1]
    value = np.nextafter(turn.logits[3, 7], np.float32(np.inf))
    rows = exact(nudged(3, 7, value))
    differ = rows[~rows["bits_equal"]]
    assert list(differ["position"]) == [int(turn.positions[3])]
    assert (differ["kl"] >= 0).all()


def test_difference_is_candidate_minus_reference_of_the_forced_token() -> None:
    token = int(WARM.turns[-1].tokens[0])
    rows = exact(nudged(0, token, float(WARM.turns[-1].logits[0, token]) + 1))
    assert rows.loc[~rows["bits_equal"], "dlogp"].iloc[0] > 0


def test_a_flip_carries_the_margin_of_the_reference() -> None:
    logits = WARM.turns[-1].logits[0]
    best, second = np.sort(logits.astype(np.float64))[::-1][:2]
    rows = exact(nudged(0, int(np.argmin(logits)), 1e3))
    flips = rows[rows["flip"]]
    assert len(flips) == 1
    assert flips["margin"].iloc[0] == best - second


def test_offsets_are_the_candidates_and_null_where_it_restores_nothing() -> None:
    assert exact(WARM)["offset_from_restore"].notna().sum() == 3 * 2 * syn.SCORED
    grid = to_frame(pair(GRID, RECORDINGS[GRID.reference], RECORDINGS[GRID.candidate]))
    assert grid["offset_from_restore"].isna().all()


def test_a_nan_is_a_difference_without_a_number() -> None:
    rows = exact(nudged(0, 0, np.nan))
    differ = rows[~rows["bits_equal"]]
    assert len(differ) == 1
    assert differ[["dlogp", "kl"]].isna().all(axis=None)


def test_arms_that_scored_other_turns_or_tokens_are_refused() -> None:
    turn = replace(WARM.turns[-1], tokens=WARM.turns[-1].tokens + 1)
    with pytest.raises(InternalError, match="different turns"):
        exact(replace(WARM, turns=WARM.turns[:-1]))
    with pytest.raises(InternalError, match="positions or tokens"):
        exact(replace(WARM, turns=(*WARM.turns[:-1], turn)))


def test_saved_recordings_give_the_same_pairs_without_kl() -> None:
    live = to_frame(pair(TOTAL, RECORDINGS[TOTAL.reference], RECORDINGS[TOTAL.candidate]))
    saved = pair_saved(
        TOTAL.name,
        to_frame(observe(RECORDINGS[TOTAL.reference])),
        to_frame(observe(RECORDINGS[TOTAL.candidate])),
    )
    assert live["kl"].max() > 0
    assert saved["kl"].isna().all()
    pd.testing.assert_frame_equal(saved.drop(columns="kl"), live.drop(columns="kl"))


def test_saved_recordings_of_other_tokens_are_refused() -> None:
    a = to_frame(observe(WARM))
    with pytest.raises(UsageError, match=r"position \d+ was scored on token"):
        pair_saved("warm", a, a.assign(token=a["token"] + 1))


def test_columns_are_those_of_the_contract() -> None:
    assert pair(EXACT, RECORDINGS[EXACT.reference], WARM).schema.equals(PAIRS)
    empty = ArmRecording("empty", (), ())
    assert pair(EXACT, empty, empty).schema.equals(PAIRS)
