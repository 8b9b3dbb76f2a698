"""What a worker hands to the comparison while logits and states are in memory. Numpy only.

One :class:`ArmRecording` holds what one arm did on one group. Turns and restores of two arms are matched by their keys
(trace, branch, turn) and (trace, branch, turn, position).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .top import TopLogprobs


@dataclass(frozen=True)
class ScoredTurn:
    """The scored positions of one assistant turn under one arm."""

    trace: str
    branch: int
    turn: int
    cluster: str
    positions: NDArray[np.int32]  # [n] of the predicted tokens
    tokens: NDArray[np.int32]  # [n] forced (or produced) tokens
    logits: NDArray[np.float32]  # [n, vocabulary]; [n, 0] if ``top`` has all that was said
    restore: int | None  # tokens covered by the state that was restored for this turn; None: none was
    role: str = "assistant"
    top: TopLogprobs | None = None  # of a subject that doesn't show its logits
    history: bytes | None = None  # of a free run: a digest of the tokens before it

    @property
    def key(self) -> tuple[str, int, int]:
        """By which the same turn of another arm is found."""
        return self.trace, self.branch, self.turn


@dataclass(frozen=True)
class StateAt:
    """The state of every recurrent layer at one position: as restored (warm), or as live at that cut (split)."""

    trace: str
    branch: int
    turn: int  # the turn that restored it
    position: int  # tokens in the state
    label: str  # how it was written: interior, interior-grid, final, final-grid or decode
    dtype: str  # of the pool
    layers: tuple[int, ...]  # model layers, 0-based
    temporal: NDArray[np.float32]  # [layers, heads, V, K], upcast exactly from the stored dtype
    conv: NDArray[np.uint8]  # [layers, bytes] raw bytes of the conv state

    @property
    def key(self) -> tuple[str, int, int, int]:
        """By which the same restore of another arm is found."""
        return self.trace, self.branch, self.turn, self.position


@dataclass(frozen=True)
class WrittenState:
    """Provenance of one checkpoint as it was written, per layer and head."""

    label: str  # as in StateAt
    layers: tuple[int, ...]
    bf16_share: NDArray[np.float64]  # [layers, heads]; NaN where fewer than 64 elements are non-zero
    declared_bf16: bool  # the pool itself is bf16, so the share says nothing


@dataclass(frozen=True)
class HitSeen:
    """What a subject that decides its own hits did with one prompt; tokens. expected: None if nothing predicts it."""

    trace: str
    branch: int
    turn: int
    prompt: int
    expected: int | None
    actual: int | None  # None: it doesn't report hits
    why: str  # in words that many hits share


@dataclass(frozen=True)
class ArmRecording:
    """What one arm did on one group."""

    arm: str
    turns: tuple[ScoredTurn, ...]
    restores: tuple[StateAt, ...]
    written: tuple[WrittenState, ...] = ()
    kernels: dict[str, frozenset[str]] = field(default_factory=dict)  # history, tail, answer -> kernels that really ran
    expected_hits: int = 0
    proven_hits: int = 0
    computed_tokens: int = 0
    label_mismatches: int = 0  # restores and commits whose slot held another position than the plan said
    content_mismatches: int = 0  # restores and commits whose slot had other tensors or bytes than its label
    hits: tuple[HitSeen, ...] = ()  # of a subject that decides them itself


def join(recordings: Sequence[ArmRecording]) -> ArmRecording:
    """What one arm did on several groups: lists joined, counts added, kernels united."""
    first, *others = recordings
    if not others:
        return first
    found: dict[str, Any] = {}
    for each in fields(ArmRecording):
        values = [getattr(recording, each.name) for recording in recordings]
        if each.name == "kernels":
            found["kernels"] = {
                part: frozenset().union(*(mine.get(part, ()) for mine in values)) for mine in values for part in mine
            }
        elif isinstance(values[0], tuple):
            found[each.name] = tuple(chain.from_iterable(values))
        elif isinstance(values[0], int):
            found[each.name] = sum(values)
    return replace(first, **found)
