"""Projections, norms and the MLP, with bits that don't depend on how many rows are computed.

A matrix product picks its kernel by the number of rows (measured: fp32 products of ≤ 8 rows differ in bits from 64 rows),
so every product here has 64 rows, looped. A row's place in its tile doesn't matter. On a GPU the Triton kernels of
``replaycheck_kernels.dense`` do the same maths, row by row by construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck_kernels import dense
from replaycheck_kernels.activation import padded
from replaycheck_kernels.precision import Precision, Rounding, round_to

from .device import uses_triton

TILE = 64


@dataclass(frozen=True)
class ColumnShard:
    """Some outputs of a projection, multiplied at the whole's width.

    On a CPU the bits of a product depend on its width, too (measured: fp32 products of ≤ 11 columns differ from wider ones,
    fp64 products nearly always), and a rank has fewer columns.

    Attributes:
        weight: [out of the whole, in]; rows of other ranks are zero. columns: [out of the shard], int64.
    """

    weight: Tensor
    columns: Tensor


Matrix = Tensor | ColumnShard


def linear(x: Tensor, weight: Matrix, precision: Precision) -> Tensor:
    """x · weightᵀ in tiles of 64 rows, rounded to ``precision``.

    Args:
        x: [N, in]. weight: [out, in], whole or a shard.

    Returns:
        [N, out].
    """
    if isinstance(weight, ColumnShard):
        return linear(x, weight.weight, precision)[:, weight.columns]
    if uses_triton(x.device):
        return dense.linear(x, weight, precision)
    rows, turned = x.shape[0], weight.T
    out = x.new_empty((rows - rows % -TILE, weight.shape[0]))
    for top in range(0, rows, TILE):
        end = top + TILE
        torch.mm(x[top:end] if end <= rows else _filled(x[top:]), turned, out=out[top:end])
    return round_to(out[:rows], precision)


def _filled(tile: Tensor) -> Tensor:
    """[n < 64, in] with rows of zeros below: [64, in]."""
    return torch.cat([tile, tile.new_zeros((TILE - len(tile), tile.shape[1]))])


def rms_norm(x: Tensor, weight: Tensor, epsilon: float, precision: Precision) -> Tensor:
    """x / sqrt(mean x² + ε) · weight over the last axis, one rounding at the end. x: [..., D]."""
    if uses_triton(x.device):
        return dense.rms_norm(x, weight, epsilon, precision)
    return round_to(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight, precision)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, epsilon: float, precision: Precision) -> Tensor:
    """RMS norm over V times sigmoid(gate), one rounding at the end. x, gate: [N, H, V]."""
    if uses_triton(x.device):
        return dense.gated_rms_norm(x, gate, weight, epsilon, precision)
    normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight
    return round_to(normal * padded(torch.sigmoid, gate), precision)


def add(x: Tensor, y: Tensor, precision: Precision, rounding: Rounding) -> Tensor:
    """x + y, rounded once: the residual stream. x, y: [N, D]."""
    if uses_triton(x.device) and rounding is Rounding.NEAREST:
        return dense.add_rounded(x, y, precision)
    return round_to(x + y, precision, rounding)


def gated_up(x: Tensor, gate: Matrix, up: Matrix, precision: Precision) -> Tensor:
    """The MLP before its last projection: SiLU(gate x) · up x, rounded once. x: [N, D]."""
    left, right = linear(x, gate, precision), linear(x, up, precision)
    if uses_triton(x.device):
        return dense.swiglu(left, right, precision)
    return round_to(padded(torch.nn.functional.silu, left) * right, precision)
