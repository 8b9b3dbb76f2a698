"""Decay, beta and the normalised q and k: everything a KDA kernel does before the recurrence, element by element.

Shape-invariant: transcendental functions run on contiguous buffers padded to a multiple of 64 elements, because torch's
vector loops and their scalar tails differ in the last bit (measured on AVX-512: sigmoid, exp2, softplus and SiLU of an
[n, 2] tensor differ from the padded result in up to 13 % of the elements; exp, log1p and sqrt don't).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from .precision import Precision, round_to
from .recipe import Recipe

LOG2E = 1.4426950216293335
"""log2(e) as the fp32 constant of the chunk kernels (1.4426950216); natural log decays are multiplied by it."""

L2_EPSILON = 1e-6
"""Added under the root of q and k norms, as every engine and ``Recipe.norm_epsilon`` have it."""

SWAPPED_BOUND = -5.0
"""The lower bound that ``decay_rule = swapped`` takes where none was given: Kimi K3's."""

SOFTPLUS_CUT = 20.0
"""Above it softplus is the identity: in fp32 log1p(exp(20)) − 20 is 2e-9, under half an ulp of 20 (9.5e-7)."""

_PAD = 64


def padded(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply an element-wise function on a contiguous buffer whose size is a multiple of 64 elements."""
    flat = x.reshape(-1)
    short = -flat.numel() % _PAD
    if short:
        flat = torch.cat([flat, flat.new_zeros(short)])
    return function(flat.contiguous())[: x.numel()].view(x.shape)


def softplus(y: Tensor) -> Tensor:
    """log(1 + e^y) of y [...], linear above the cut."""
    return torch.where(y > SOFTPLUS_CUT, y, torch.log1p(torch.exp(y.clamp(max=SOFTPLUS_CUT))))


def log_decay(a: Tensor, A_log: Tensor, dt_bias: Tensor, recipe: Recipe, lower_bound: float | None = None) -> Tensor:
    """Natural log of the decay: −exp(A_log)·softplus(y), or L·sigmoid(exp(A_log)·y) with a lower bound L; y = a + dt_bias.

    Source: Kimi Linear (arXiv 2510.26692) and the decay kernels of SGLang 0.5.23, vLLM 0.33.0 and fla-core 0.6.0.

    Args:
        a: [N, HV, K] raw, or [N, HV, 1] with one decay a head. A_log: [HV]. dt_bias: [HV, K] or [HV, 1].
        lower_bound: L, −5 ≤ L < 0, or None.

    Returns:
        The shape of a, ≤ 0. With ``decay_site = outside`` it passes through the activation dtype, as a tensor would.
    """
    rate = torch.exp(A_log.to(a.dtype))[None, :, None]
    y = a + dt_bias.to(a.dtype) if recipe.decay_bias == "added" else a
    if recipe.decay_rule == "swapped":
        lower_bound = SWAPPED_BOUND if lower_bound is None else None
    g = -rate * padded(softplus, y) if lower_bound is None else lower_bound * padded(torch.sigmoid, rate * y)
    if recipe.decay_unit == "mixed":
        g = g * log(2)
    return round_to(g, recipe.activation, recipe.rounding) if recipe.decay_site == "outside" else g


def activate_beta(b: Tensor, precision: Precision, recipe: Recipe) -> Tensor:
    """Sigmoid of raw beta [N, HV], at the place and in the precision that the recipe says."""
    if recipe.beta_site == "nowhere":
        return b
    beta = padded(torch.sigmoid, b)
    if recipe.beta_site == "twice":
        beta = padded(torch.sigmoid, beta)
    site = recipe.activation if recipe.beta_site == "outside" else precision
    return round_to(beta, site, recipe.rounding)


def l2_normalise(x: Tensor, form: str, precision: Precision, recipe: Recipe) -> Tensor:
    """x [..., K] / sqrt(Σx² + 1e-6) over the last axis: divided by the root, or times 1/root or rsqrt (see ``Recipe.norm``).

    On the CPU 1/root and rsqrt differ in the last bit of 13 % of random fp32 values (measured).
    """
    square = x.square().sum(-1, keepdim=True) + recipe.norm_epsilon
    if form == "divide":
        normal = x / torch.sqrt(square)
    else:
        normal = x * (torch.rsqrt(square) if form == "rsqrt" else 1 / torch.sqrt(square))
    return round_to(normal, precision, recipe.rounding)
