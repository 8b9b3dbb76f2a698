"""What a chunk kernel computes on its way, by the names of the rounding map, so that a claimed recipe can be tested.

An engine's chunk kernels hand tensors to each other; a provider that exposes some of them is compared with the emulator
one by one, and the first to differ says where it departs from its recipe. Comparison counts units in the last place of the
declared precision: another order of fp32 sums moves a few elements over a rounding boundary, which is one unit, and more
only where terms cancel. No judgement is made here.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from .chunk import Intra, Pass, intra_chunk, normalised, on_products, packed, state_pass
from .contract import KdaInputs
from .grid import chunk_map
from .precision import Precision, container, round_to, spacing
from .recipe import Recipe

#: Each intermediate and the rounding point that it is stored in, in the order of computation.
_POINTS = {
    "q": "qk_norm",
    "k": "qk_norm",
    "G": "decay_cumsum",
    "beta": "beta",
    "kk": "kk_matrix",
    "qk": "qk_matrix",
    "inverse": "inverse",
    "u": "u",
    "w": "w",
    "k_decayed": "k_decayed",
    "q_decayed": "q_decayed",
    "v_new": "v_new",
    "h": "chunk_state",
    "o": "output",
}
NAMES = (*_POINTS, "final")


def intermediates(inputs: KdaInputs, initial: Tensor, recipe: Recipe) -> dict[str, Tensor]:
    """Everything that a chunk kernel stores under ``recipe``, in the engines' layout: packed tokens first.

    Args:
        initial: [R, HV, V, K].

    Returns:
        By ``NAMES``, in the order of computation:
        q, k [N, H, K] normalised; G [N, HV, K or 1] cumulative log decay inside the chunk, in the unit of the recipe's
        exponential; beta [N, HV]; kk, qk, inverse [N, HV, C], row t of its chunk's matrix: β k·k strictly lower, scaled
        q·k lower (unscaled where decays are on the products), (1 + kk)^-1; u, v_new [N, HV, V]; w, k_decayed, q_decayed
        [N, HV, K]; h [chunks, HV, V, K], the state at each chunk's start; o [N, HV, V]; final [R, HV, V, K].
        Where decays are on the products, k_decayed and q_decayed are plain k and q.
    """
    chunks = chunk_map(inputs, recipe)
    intra = intra_chunk(inputs, chunks, recipe)
    done = state_pass(intra, chunks, initial, recipe)
    found = {"q": normalised(inputs.q, recipe), "k": normalised(inputs.k, recipe)}
    for name, tensor in _by_token(intra, done, recipe).items():
        found[name] = packed(tensor, chunks, inputs.offsets[-1])
    found["h"] = round_to(done.starts, recipe.chunk_state, recipe.rounding)
    found["final"] = done.final
    return {name: found[name] for name in NAMES}


def _by_token(intra: Intra, done: Pass, recipe: Recipe) -> dict[str, Tensor]:
    """Those in chunks, [B, HV, C, …]."""
    return {
        "G": intra.tokens.G,
        "beta": intra.tokens.beta[..., 0],
        "kk": intra.kk,
        "qk": intra.qk,
        "inverse": intra.inverse,
        "u": intra.u,
        "w": intra.w,
        "k_decayed": intra.k_decayed,
        "q_decayed": intra.q_decayed,
        "v_new": done.v_new,
        "o": round_to(done.o, recipe.output, recipe.rounding),
    }


def declared(name: str, inputs: KdaInputs, recipe: Recipe) -> Precision:
    """The precision in which the recipe stores an intermediate.

    Raises:
        ValueError: no such intermediate.
    """
    if name not in NAMES:
        raise ValueError(f"unknown intermediate {name!r}; choose one of {', '.join(NAMES)}")
    if name == "final":
        return Precision.FP64 if container(recipe.activation) is torch.float64 else Precision.FP32
    if name == "beta" and recipe.beta_site != "kernel":
        return recipe.activation
    if name in ("k_decayed", "q_decayed") and on_products(inputs, recipe):
        return recipe.qk_norm
    return recipe.precisions()[_POINTS[name]]


class UlpDifference(NamedTuple):
    """share: of elements that differ by more than 1 ulp; largest: difference in ulp; worst: index of that element."""

    share: float
    largest: float
    worst: tuple[int, ...]


def compare_intermediate(claimed: Tensor, found: Tensor, precision: Precision) -> UlpDifference:
    """How far two tensors [...] of one shape are apart, in units in the last place of ``precision`` at the larger magnitude.

    NaN equals NaN, infinity its like; either against anything else is infinitely far.

    Args:
        claimed, found: one shape, any dtypes, not empty.

    Raises:
        ValueError: the shapes differ or are empty.
    """
    if claimed.shape != found.shape or not claimed.numel():
        raise ValueError(f"can't compare shapes {tuple(claimed.shape)} and {tuple(found.shape)}; they must be the same")
    a, b = claimed.double(), found.double()
    units = (a - b).abs() / spacing(torch.maximum(a.abs(), b.abs()), precision)
    units = torch.where(a.isfinite() & b.isfinite(), units, inf)
    units = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, units)
    place = torch.unravel_index(units.argmax(), units.shape)
    share = float((units > 1).double().mean())
    return UlpDifference(share, float(units.max()), tuple(int(i) for i in place))
