"""Projections, norms and the MLP, with bits that don't depend on how many rows are computed.

A matrix product picks its kernel by the number of rows (measured: fp32 products of ≤ 8 rows differ in bits from 64 rows),
so every product here has 64 rows, looped. A row's place in its tile doesn't matter. On a GPU the Triton kernels of
``replaycheck_kernels.dense`` do the same maths, row by row by construction.
"""

from __future__ import annotations

import torch
from torch import Tensor

from replaycheck_kernels import dense
from replaycheck_kernels.activation import padded
from replaycheck_kernels.precision import Precision, Rounding, round_to

from .device import uses_triton

TILE = 64


def linear(x: Tensor, weight: Tensor, precision: Precision) -> Tensor:
    """x · weightᵀ in tiles of 64 rows, rounded to ``precision``.

    Args:
        x: [N, in]. weight: [out, in].

    Returns:
        [N, out].
    """
    if uses_triton(x.device):
        return dense.linear(x, weight, precision)
    short = -x.shape[0] % TILE
    if short:
        x = torch.cat([x, x.new_zeros((short, x.shape[1]))])
    out = x.new_empty((x.shape[0], weight.shape[0]))
    for top in range(0, x.shape[0], TILE):
        torch.mm(x[top : top + TILE], weight.T, out=out[top : top + TILE])
    return round_to(out[: out.shape[0] - short], precision)


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


def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor, precision: Precision) -> Tensor:
    """down(SiLU(gate x) · up x). x: [N, D]."""
    left, right = linear(x, gate, precision), linear(x, up, precision)
    if uses_triton(x.device):
        return linear(dense.swiglu(left, right, precision), down, precision)
    inner = padded(torch.nn.functional.silu, left) * right
    return linear(round_to(inner, precision), down, precision)
