"""The scored positions of arms as flat arrays in key order, so that tables are built by columns and not turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.errors import InternalError

from .record import ArmRecording, ScoredTurn
from .top import joined

__all__ = ["Scored", "named", "whole"]

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Scored:
    """All turns of one arm, by trace, branch and turn; arrays are [rows], one a position."""

    arm: str
    turns: tuple[ScoredTurn, ...]
    sizes: NDArray[np.int64]  # [turns] positions of each
    positions: Ints
    tokens: Ints
    logits: NDArray[np.float32]  # [rows, vocabulary]; packed rows of what was said if the subject shows no logits
    partial: bool = False  # whether they are: see TopLogprobs

    @classmethod
    def of(cls, recording: ArmRecording) -> Scored:
        turns = tuple(sorted(recording.turns, key=lambda turn: turn.key))
        tops = [turn.top for turn in turns if turn.top is not None]
        if tops and len(tops) != len(turns):
            raise InternalError(f"arm {recording.arm!r}: some turns have logits and some have none; record one kind")
        return cls(
            recording.arm,
            turns,
            np.array([len(turn.positions) for turn in turns], np.int64),
            np.concatenate([turn.positions for turn in turns]) if turns else np.empty(0, np.int32),
            np.concatenate([turn.tokens for turn in turns]) if turns else np.empty(0, np.int32),
            joined(tops).packed() if tops else _concatenated([turn.logits for turn in turns]),
            bool(tops),
        )

    def __len__(self) -> int:
        return len(self.positions)

    def spread(self, of_turns: Sequence[int]) -> NDArray[np.int64]:
        """[rows] from one number a turn."""
        return np.repeat(np.array(of_turns, np.int64), self.sizes)

    @property
    def restore(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Tokens that the restored state covers, and where there is none."""
        covered = self.spread([-1 if turn.restore is None else turn.restore for turn in self.turns]).astype(np.int32)
        return covered, covered < 0


def _concatenated(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate(logits) if logits else np.empty((0, 1), np.float32)


def named(parts: Sequence[tuple[Sequence[str], NDArray[np.int64]]]) -> pa.DictionaryArray:
    """A column of names: of each part one name a turn (or arm, or cell), and how many rows that has. The dictionary is in
    order of appearance, as equal bytes need."""
    number: dict[str, int] = {}
    codes = [[number.setdefault(name, len(number)) for name in of_turns] for of_turns, _ in parts]
    spread = [np.repeat(np.array(mine, np.int32), sizes) for mine, (_, sizes) in zip(codes, parts, strict=True)]
    indices = np.concatenate(spread) if spread else np.empty(0, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(number), pa.string()))


def whole(parts: Sequence[NDArray[np.generic]], mask: Sequence[NDArray[np.bool_]] | None = None) -> pa.Array:
    """A column of numbers, from parts [n] with masks [n]; null where the mask is set."""
    values = np.concatenate(parts) if parts else np.empty(0, np.int32)
    return pa.array(values, mask=None if mask is None else np.concatenate(mask) if mask else None)
