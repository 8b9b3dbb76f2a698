"""Decode and verify kernels as a recurrent form over many tokens: an in-place call a token, or a window in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import KdaInputs, SnapshotRow
from ..recipe import Recipe
from ..recurrent import tap_points
from .adapt import Packed, pack
from .provider import PoolForward, PoolResult


@dataclass(frozen=True)
class Token:
    """One token of each active sequence.

    Attributes:
        mixed: [B, 2·H·K + HV·V]; a: [B, HV·K], or [B, HV] for GDN; b: [B, HV].
        out: [B, 1, HV, V], written by the kernel.
        slots: [B] int32.
    """

    mixed: Tensor
    a: Tensor
    b: Tensor
    out: Tensor
    slots: Tensor


Step = Callable[[Packed, Token, Tensor], None]
"""One decode call: packed inputs (for the parameters), the tokens, the pool that it updates."""


def token_by_token(step: Step) -> PoolForward:
    """Decode all tokens of all sequences, one call for the tokens at the same position, as a batch of requests would.

    The state goes through the pool between tokens, so in a reduced pool each token rounds it. A tap is a copy of the
    slot before the token.
    """

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        x, points = pack(inputs, recipe), tap_points(inputs, rows, recipe)
        mixed, a, b = x.mixed(), x.a[0].flatten(1), x.b[0]
        o, taps = torch.empty_like(x.v[0]), {}
        for active, tokens in _positions(inputs):
            for row, point in zip(rows, points, strict=True):
                if point in tokens:
                    taps[row] = pool[slots[row.sequence]].clone()
            at = torch.tensor([slots[r] for r in active], dtype=torch.int32, device=pool.device)
            out = o.new_empty(len(active), 1, *o.shape[1:])
            step(x, Token(mixed[tokens], a[tokens], b[tokens], out, at), pool)
            o[tokens] = out[:, 0]
        return PoolResult(o, taps)

    return call


def _positions(inputs: KdaInputs) -> Iterator[tuple[list[int], list[int]]]:
    """For each position: the sequences that reach it, and their packed token indices."""
    lengths = inputs.lengths()
    for position in range(max(lengths)):
        active = [r for r, length in enumerate(lengths) if length > position]
        yield active, [inputs.offsets[r] + position for r in active]


def steps_before(inputs: KdaInputs, rows: Sequence[SnapshotRow], recipe: Recipe) -> list[int]:
    """How many tokens of its sequence precede each interior row's snapshot."""
    points = tap_points(inputs, rows, recipe)
    return [point - inputs.offsets[row.sequence] for row, point in zip(rows, points, strict=True)]
