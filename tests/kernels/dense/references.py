"""The dense operations in float64, each with the error that fp32 arithmetic may make: (value, bound), element by element.

u = 2^-24 is the relative error of one fp32 rounding. An n-term sum of fp32 values, in any order, is within n·u·Σ|terms|
(first order); tensor cores may truncate instead of rounding, so their sums are given 2u a term. exp at y: 1.5·|y|·u (the
argument times a rounded log2(e)) + 4u (ex2.approx: 2^-22). A division that isn't IEEE: 4u (2 ulp).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

U = 2.0**-24
TINY = 2.0**-126
"""Below the smallest normal number fp32 has no relative precision, and ``exp`` flushes to zero."""
EXP = 4 * U
DIVISION = 4 * U

Bounded = tuple[Tensor, Tensor]


def _logistic_error(y: Tensor) -> Tensor:
    """Relative error of 1 / (1 + e^−y): exp, one sum, one division."""
    return 1.5 * y.abs() * U + EXP + U + DIVISION


def linear(x: Tensor, weight: Tensor) -> Bounded:
    x, w = x.double(), weight.double()
    return x @ w.T, x.shape[1] * 2 * U * (x.abs() @ w.abs().T) + TINY


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Bounded:
    """A relative error of the mean square (D products and sums, ε, the division) is halved by the root; then root,
    reciprocal and two products."""
    D = x.shape[-1]
    mean = x.double().square().mean(-1, keepdim=True)
    value = x.double() / (mean + epsilon).sqrt() * weight.double()
    return value, ((D + 2) / 2 + 4) * U * value.abs() + TINY


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, epsilon: float) -> Bounded:
    normal, error = rms_norm(x, weight, epsilon)
    sigmoid = torch.sigmoid(gate.double())
    return normal * sigmoid, (error + normal.abs() * _logistic_error(gate.double())) * sigmoid + TINY


def swiglu(gate: Tensor, up: Tensor) -> Bounded:
    value = torch.nn.functional.silu(gate.double()) * up.double()
    return value, value.abs() * (_logistic_error(gate.double()) + U) + TINY * (1 + up.double().abs())


def add(x: Tensor, y: Tensor) -> Bounded:
    value = x.double() + y.double()
    return value, U * value.abs() + TINY


def convolution(x: Tensor, weight: Tensor, state: Tensor, offsets: list[int]) -> Bounded:
    """Sequence by sequence; |SiLU′| ≤ 1.1 carries the error of the sum on."""
    W = weight.shape[1]
    values, bounds = [], []
    for r, (begin, end) in enumerate(pairwise(offsets)):
        line = torch.cat([state[r], x[begin:end]]).double()
        windows = line.unfold(0, W, 1) if begin < end else line.new_empty((0, x.shape[1], W))
        terms = windows * weight.double()
        total = terms.sum(-1)
        value = torch.nn.functional.silu(total)
        values.append(value)
        bounds.append(1.1 * W * U * terms.abs().sum(-1) + value.abs() * _logistic_error(total) + TINY)
    return torch.cat(values), torch.cat(bounds)


def windows(x: Tensor, state: Tensor, offsets: list[int], rows: list[int], ends: list[int]) -> Tensor:
    history = state.shape[1]
    lines = [torch.cat([state[r], x[offsets[r] : offsets[r] + end]]) for r, end in zip(rows, ends, strict=True)]
    return torch.stack([line[-history:] for line in lines])


def attention(q: Tensor, keys: Tensor, values: Tensor, scale: float, block: int) -> Bounded:
    """One query of one sequence. q: [H, D]. keys: [n, H, D], values: [n, H, V] in the order of positions.

    1. A score's error δ: as many terms as q has that aren't 0, then one product with the scale.
    2. A weight's relative error ρ: 2δ (its score and the maximum), exp over the range of the scores in as many pieces as
       there are key blocks, a product for each.
    3. The quotient: ρ in numerator and denominator, n terms in each (the three bf16 terms of a weight are 1 + 2^-8 of its
       size, their sums may be truncated), a product with the decay for each block, the division.
    """
    q, keys, values = q.double(), keys.double(), values.double()
    n, blocks = keys.shape[0], -(-keys.shape[0] // block)
    products = q * keys
    s = products.sum(-1) * scale
    terms = int((products != 0).sum(-1).max())
    delta = (terms * 2 * U * products.abs().sum(-1) * abs(scale) + U * s.abs()).max()
    rho = 2 * delta + 1.5 * U * (s.max() - s.min()) + (blocks + 1) * (EXP + U)
    weight = torch.softmax(s, 0)
    relative = 2 * rho + n * U + 1.01 * n * 2 * U + 2 * blocks * U + DIVISION
    size = (weight[..., None] * values.abs()).sum(0)
    return (weight[..., None] * values).sum(0), relative * size + TINY
