"""What a cell with a fault shows: the fault's signature as it was measured, from the recordings of two arms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt
from replaycheck.faults.signature import Conv, Grid, Onset, Signature, State

__all__ = ["First", "first_wrong", "measured", "size_of"]

ROUNDING = 2.0**-6
"""Four times the largest relative error of one rounding to 8 significant bits, 2^-8: as much as a few turns add up to."""
PART = 0.25
"""A border for words. A state of another sequence or of no tokens is off by its own size, one that lacks a token or a head
by the share that this has."""


@dataclass(frozen=True)
class First:
    """The first scored position with other bits; ``offset``: from the token after the restored state, if one was."""

    turn: str
    position: int
    offset: int | None
    restored: bool
    index: int  # among the turn's scored positions


@dataclass(frozen=True)
class _Wrong:
    """A restored state that isn't the reference's: error of the first wrong layer (0: conv only), and how it was written."""

    key: tuple[str, int, int, int]
    error: float
    on_grid: bool


def measured(reference: ArmRecording, warm: ArmRecording) -> Signature:
    """The signature of the pair. ``needs`` is its default: a pair can't show that."""
    wrong = [found for pair in _pairs(reference, warm) if (found := _wrong(*pair))]
    first = first_wrong(reference, warm)
    return Signature(
        onset=_onset(warm, first, wrong),
        conv=_conv(reference, warm),
        state=size_of(wrong[0].error) if wrong else State.CLEAN,
        grid=_grid(wrong),
    )


def size_of(error: float) -> State:
    """The class of a relative error."""
    if not np.isfinite(error):
        return State.NOT_FINITE
    if error == 0:
        return State.CLEAN
    return State.ROUNDING if error <= ROUNDING else State.PART if error <= PART else State.OTHER


def first_wrong(reference: ArmRecording, warm: ArmRecording) -> First | None:
    """In the order of requests."""
    turns = {turn.key: turn for turn in reference.turns}
    for turn in warm.turns:
        unlike = _unlike(turns[turn.key], turn)
        if unlike is not None:
            position = int(turn.positions[unlike])
            offset = None if turn.restore is None else position - turn.restore
            return First(f"{turn.trace}/{turn.branch}/{turn.turn}", position, offset, turn.restore is not None, unlike)
    return None


def _unlike(a: ScoredTurn, b: ScoredTurn) -> int | None:
    """The first position with other bits."""
    same = (a.logits.view(np.uint32) == b.logits.view(np.uint32)).all(axis=1)
    return None if same.all() else int(np.argmin(same))


def _pairs(reference: ArmRecording, warm: ArmRecording) -> Iterator[tuple[StateAt, StateAt]]:
    """Restores in the order in which warm ran them, with the reference's."""
    live = {state.key: state for state in reference.restores}
    for state in warm.restores:
        if state.key in live:
            yield live[state.key], state


def _wrong(live: StateAt, restored: StateAt) -> _Wrong | None:
    conv = (live.conv != restored.conv).any(axis=1)
    for layer in range(len(live.layers)):
        a, b = live.temporal[layer].astype(np.float64), restored.temporal[layer].astype(np.float64)
        if live.temporal[layer].tobytes() != restored.temporal[layer].tobytes() or conv[layer]:
            size = float(np.linalg.norm(a)) or 1.0
            error = float(np.linalg.norm(b - a)) / size
            return _Wrong(restored.key, error, restored.label.endswith("grid"))
    return None


def _onset(warm: ArmRecording, first: First | None, wrong: list[_Wrong]) -> Onset:
    if first is None:
        return Onset.NONE
    if not first.restored:
        return Onset.BEFORE
    keys = [f"{key[0]}/{key[1]}/{key[2]}" for key in (each.key for each in wrong)]
    restoring = [f"{turn.trace}/{turn.branch}/{turn.turn}" for turn in warm.turns if turn.restore is not None]
    expected = keys[0] if keys else restoring[0]
    return Onset.RESTORE if first.index == 0 and first.turn == expected else Onset.LATER


def _conv(reference: ArmRecording, warm: ArmRecording) -> Conv:
    unequal = [(live.conv != restored.conv).any(axis=1) for live, restored in _pairs(reference, warm)]
    if any(layers[0] for layers in unequal):
        return Conv.SHIFTED
    return Conv.FOLLOWS if any(layers.any() for layers in unequal) else Conv.CLEAN


def _grid(wrong: list[_Wrong]) -> Grid:
    kinds = {each.on_grid for each in wrong}
    if not kinds:
        return Grid.NONE
    return Grid.BOTH if len(kinds) == 2 else Grid.ON if kinds == {True} else Grid.OFF
