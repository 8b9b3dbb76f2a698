"""Signatures from two recordings, made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt
from replaycheck.faults.signature import Conv, Grid, Onset, Signature, State
from replaycheck.selftest.seen import first_wrong, measured, size_of


def turn(number: int, restore: int | None) -> ScoredTurn:
    positions = np.arange(10 * number + 5, 10 * number + 8, dtype=np.int32)
    return ScoredTurn("t", 0, number, "c", positions, positions, np.ones((3, 4), np.float32), restore)


def restored(number: int, label: str = "interior") -> StateAt:
    return StateAt(
        "t", 0, number, 10 * number, label, "fp32", (0, 2), np.ones((2, 1, 3, 4), np.float32), np.ones((2, 6), np.uint8)
    )


RIGHT = ArmRecording("a", (turn(0, None), turn(1, 10), turn(2, 20)), (restored(1), restored(2, "final-grid")))


def spoiled(
    logits: tuple[int, int] | None = None, states: tuple[int, ...] = (), conv: tuple[int, ...] = ()
) -> ArmRecording:
    """Turn and index of the first wrong position; layers of the first restore that are wrong."""
    turns = list(RIGHT.turns)
    if logits:
        changed = turns[logits[0]].logits.copy()
        changed[logits[1] :] += 1
        turns[logits[0]] = replace(turns[logits[0]], logits=changed)
    first = RIGHT.restores[0]
    temporal, window = first.temporal.copy(), first.conv.copy()
    temporal[list(states)] *= 1.01
    window[list(conv)] += 1
    return replace(
        RIGHT, turns=tuple(turns), restores=(replace(first, temporal=temporal, conv=window), RIGHT.restores[1])
    )


@pytest.mark.parametrize(
    ("warm", "wanted"),
    [
        (RIGHT, Signature(Onset.NONE, Conv.CLEAN, State.CLEAN, Grid.NONE)),
        (spoiled((0, 1)), Signature(Onset.BEFORE, Conv.CLEAN, State.CLEAN, Grid.NONE)),
        (spoiled((1, 0), (0,)), Signature(Onset.RESTORE, Conv.CLEAN, State.ROUNDING, Grid.OFF)),
        (spoiled((1, 1), (1,)), Signature(Onset.LATER, Conv.CLEAN, State.ROUNDING, Grid.OFF)),
        (spoiled((1, 0), (), (0,)), Signature(Onset.RESTORE, Conv.SHIFTED, State.CLEAN, Grid.OFF)),
        (spoiled((1, 0), (0,), (1,)), Signature(Onset.RESTORE, Conv.FOLLOWS, State.ROUNDING, Grid.OFF)),
        (spoiled((2, 0)), Signature(Onset.LATER, Conv.CLEAN, State.CLEAN, Grid.NONE)),
    ],
)
def test_a_signature_says_where_and_what(warm: ArmRecording, wanted: Signature) -> None:
    assert measured(RIGHT, warm) == wanted


def test_the_first_wrong_position_has_its_offset_from_the_restore() -> None:
    first = first_wrong(RIGHT, spoiled((1, 1)))
    assert first and (first.turn, first.position, first.offset) == ("t/0/1", 16, 6)
    assert first_wrong(RIGHT, RIGHT) is None


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (0.0, State.CLEAN),
        (2.0**-6, State.ROUNDING),
        (0.02, State.PART),
        (0.26, State.OTHER),
        (float("nan"), State.NOT_FINITE),
    ],
)
def test_a_size_has_a_word(error: float, wanted: State) -> None:
    assert size_of(error) is wanted
