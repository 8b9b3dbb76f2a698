"""Decode and verify kernels as a recurrent form over many tokens: an in-place call a token, or a window in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        positions = _positions(inputs)
        order = torch.tensor([token for _, tokens in positions for token in tokens]).to(pool.device)
        mixed, a, b = (part[order] for part in (x.mixed(), x.a[0].flatten(1), x.b[0]))
        out, taps = torch.empty_like(x.v[0])[:, None], {}
        begin, at = 0, _Slots(slots, pool.device)
        for active, tokens in positions:
            for row, point in zip(rows, points, strict=True):
                if point in tokens:
                    taps[row] = pool[slots[row.sequence]].clone()
            now = slice(begin, begin + len(tokens))
            parts = [_aligned(part[now]) for part in (mixed, a, b)]
            step(x, Token(parts[0], parts[1], parts[2], out[now], at.of(active)), pool)
            begin = now.stop
        o = torch.empty_like(x.v[0])
        o[order] = out[:, 0]
        return PoolResult(o, taps)

    return call


def packed_decode(kernel: Callable[..., object], bounded: bool) -> PoolForward:
    """A kernel with the call that fla's packed decode began with: SGLang's Triton and Helion ones, and vLLM's for GDN.

    ``bounded``: it takes KDA's lower bound; GDN knows none.
    """

    def step(x: Packed, token: Token, pool: Tensor) -> None:
        bound = {"lower_bound": x.bound} if bounded else {}
        kernel(
            mixed_qkv=token.mixed,
            a=token.a,
            b=token.b,
            A_log=x.A_log,
            dt_bias=x.dt_bias,
            scale=x.scale,
            initial_state=pool,
            out=token.out,
            ssm_state_indices=token.slots,
            use_qk_l2norm_in_kernel=True,
            **bound,
        )

    return token_by_token(step)


class _Slots:
    """Slots of the active sequences on the device; a new tensor only when a sequence has ended."""

    def __init__(self, slots: Sequence[int], device: torch.device) -> None:
        self._slots, self._device = slots, device
        self._active: list[int] = []

    def of(self, active: list[int]) -> Tensor:
        if active != self._active:
            self._active = active
            self._at = torch.tensor([self._slots[r] for r in active], dtype=torch.int32).to(self._device)
        return self._at


def _aligned(x: Tensor) -> Tensor:
    """x at 16 bytes: for another alignment Triton compiles another kernel, which a decode call of an engine doesn't run."""
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _positions(inputs: KdaInputs) -> list[tuple[list[int], list[int]]]:
    """For each position: the sequences that reach it, and their packed token indices."""
    lengths = inputs.lengths()
    reached = [[r for r, length in enumerate(lengths) if length > position] for position in range(max(lengths))]
    return [(active, [inputs.offsets[r] + position for r in active]) for position, active in enumerate(reached)]


def steps_before(inputs: KdaInputs, rows: Sequence[SnapshotRow], recipe: Recipe) -> list[int]:
    """How many tokens of its sequence precede each interior row's snapshot."""
    points = tap_points(inputs, rows, recipe)
    return [point - inputs.offsets[row.sequence] for row, point in zip(rows, points, strict=True)]
