"""ReplaySSM's ring: the raw inputs of accepted tokens, run again in order through the recurrent kernel.

The ring keeps what the recurrence reads (k before the norm, v, raw decay, raw beta), so a replay is the decode itself: the
same kernel on the same inputs, hence the same bits. It must do each token's matrix-vector product again, which RecoverSSM's
records avoid. Two ways of use: fold after every step (SGLang 0.5.23, kda_replayssm_spec_decode.py), or let the checkpoint
fall behind and fold when the ring is full (fused_recurrent_linear_replayssm.py, ring of 16).

Cursors are plan data: how many tokens were accepted is known when a schedule is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..contract import KdaInputs, StateKernel
from ..recipe import Recipe
from .window import Windows

KEPT = ("k", "v", "a", "b")


class Ring:
    """Raw inputs of up to ``capacity`` tokens for each of R requests of one layer.

    Attributes:
        counts: tokens that each request's checkpoint lacks.
    """

    def __init__(self, capacity: int, rows: int, like: KdaInputs) -> None:
        self.capacity = capacity
        self.counts = [0] * rows
        self._starts = [0] * rows
        self._like = like
        self._slots = {
            name: getattr(like, name).new_full((rows, capacity, *getattr(like, name).shape[1:]), float("nan"))
            for name in KEPT
        }

    def fits(self, row: int, tokens: int) -> bool:
        return self.counts[row] + tokens <= self.capacity

    def push(self, window: Windows, kept: Sequence[int]) -> None:
        """Append the first ``kept[r]`` tokens of each row's window.

        Raises:
            ValueError: more than the ring has room for; fold first, or give a ring of at least the window's width.
        """
        for row, tokens in enumerate(kept):
            if not self.fits(row, tokens):
                raise ValueError(
                    f"ring of {self.capacity} tokens holds {self.counts[row]} of request {row} and has no room for "
                    f"{tokens}; fold it into the checkpoint first"
                )
            places = [(self._starts[row] + self.counts[row] + i) % self.capacity for i in range(tokens)]
            for name, slots in self._slots.items():
                fresh = getattr(window.inputs, name).unflatten(0, (window.rows, window.width))
                slots[row, places] = fresh[row, :tokens]
            self.counts[row] += tokens

    def pop(self, row: int, tokens: int) -> None:
        """The checkpoint now holds the oldest ``tokens`` of the row."""
        self._starts[row] = (self._starts[row] + tokens) % self.capacity
        self.counts[row] -= tokens

    def inputs(self, rows: Sequence[int]) -> KdaInputs:
        """The pending tokens of these rows, oldest first, packed; q, which no state depends on, is k."""
        places = [[(self._starts[r] + i) % self.capacity for i in range(self.counts[r])] for r in rows]
        parts: dict[str, Any] = {
            name: torch.cat([slots[r, order] for r, order in zip(rows, places, strict=True)])
            for name, slots in self._slots.items()
        }
        offsets = [0]
        for order in places:
            offsets.append(offsets[-1] + len(order))
        return replace(self._like, **parts, q=parts["k"], offsets=tuple(offsets), starts=())


def replay(ring: Ring, checkpoint: Tensor, kernel: StateKernel, recipe: Recipe) -> Tensor:
    """The live states [R, HV, V, K]: each checkpoint followed by its pending tokens; nothing is written."""
    rows = [row for row, count in enumerate(ring.counts) if count]
    if not rows:
        return checkpoint
    live = checkpoint.clone()
    live[rows] = kernel(ring.inputs(rows), checkpoint[rows], (), recipe).final
    return live
