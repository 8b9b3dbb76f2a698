"""How far a rebuild on a GPU may lie from float64, elementary functions included; from documented errors, nothing fitted.

``bound`` counts roundings of a rebuild whose keys and decays have equal bits on both sides. A GPU takes e^x as
ex2.approx(x·log2 e), so its decays have other bits. With ε = 2^-24, η the error of ex2.approx (``hardware.EXP``) and all
errors relative to exact arithmetic on the recorded values:

    e^x             E(x) = η + 2ε|x|: the constant and the product are rounded, in the exponent
    1 / (1 + e^−z)  (1 − σ)·E(z) + 5ε: a sum, and a division of 2 units (div.full)
    z = A·y         E(A_log) + 2ε: y = a + dt_bias and the product
    g bounded       (1 − σ)·(E(z) + |z|·(E(A_log) + 2ε)) + 6ε, as dσ/σ = (1 − σ)·dz
    ln(1 + e^y)     E(y) + ε|y| + 8ε: as ln u·z / (u − 1) a logarithm and a division of 2 units each, a product and 1 for
                    u = fl(1 + z) (Goldberg 1991, theorem 4); neither the error of z nor that of y grows
    g softplus      E(A_log) + ε + that
    d = e^g         δ = |g|·(error of g) + E(g)
    k̂               κ = (K/2 + 10)·ε: K squares summed in any order, halved by the root; root and quotient or rsqrt of 2
                    units each, two products

A term of S_n meets at most n + 2 roundings, one κ, and the δ of the tokens that decay it. With r their sum over all kept
tokens, each element is off by at most r / (1 − r) of the sum of absolute values B (Higham, lemma 3.1).
Sources: PTX ISA 8.x, floating-point instructions (ex2.approx, div.full, rsqrt.approx, sqrt.approx).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..hardware import EXP
from ..recipe import Recipe
from .bound import FLUSHED, UNIT
from .commit import Decays, activated, magnitude
from .verify import Records


def exact(checkpoint: Tensor, records: Records, lengths: Tensor, decays: Decays, recipe: Recipe) -> Tensor:
    """The state after ``lengths`` tokens of each window, token by token in float64 from what the records hold.

    Args:
        checkpoint: [R, HV, V, K]. lengths: [R], 0 to Q.
    """
    keys, factors = activated(_wide(records), decays, recipe, torch.float64)
    state = checkpoint.double()
    for t in range(keys.shape[2]):
        update = records.correction[:, :, t, :, None].double() * keys[:, :, t, None, :]
        live = (lengths > t)[:, None, None, None]
        state = torch.where(live, state * factors[:, :, t, None, :] + update, state)
    return state


def gpu_bound(checkpoint: Tensor, records: Records, lengths: Tensor, decays: Decays, recipe: Recipe) -> Tensor:
    """Largest |rebuilt − exact| of each element, before any cast.

    Args:
        checkpoint: [R, HV, V, K]. lengths: [R] tokens kept.

    Returns:
        [R, HV, V, K] fp64; zero where nothing is kept.
    """
    kept = (lengths[:, None] > torch.arange(records.key.shape[2], device=lengths.device))[:, None, :, None]
    errors = torch.where(kept, decay_error(records, decays), 0.0).sum(2)
    n, width = lengths.double()[:, None, None], records.key.shape[3]
    relative = torch.where(n > 0, errors + (n + 2 + width / 2 + 10) * UNIT, 0.0)
    size = magnitude(checkpoint, _wide(records), lengths, decays, recipe)
    return (relative / (1 - relative))[:, :, None, :] * size + 4 * n[..., None] * FLUSHED


def decay_error(records: Records, decays: Decays) -> Tensor:
    """δ of each token's decay, [R, HV, Q, K], or 1 in the last axis with one decay a head; fp64."""
    A_log = decays.A_log.double()[:, None, None]
    y = records.decay.double() + decays.dt_bias.double()[:, None]
    rate = A_log.exp()
    if decays.lower_bound is None:
        g = -rate * torch.nn.functional.softplus(y, threshold=700.0)
        error = exponential(A_log) + exponential(y) + (y.abs() + 9) * UNIT
    else:
        z = rate * y
        g, rest = decays.lower_bound * torch.sigmoid(z), torch.sigmoid(-z)
        error = rest * (exponential(z) + z.abs() * (exponential(A_log) + 2 * UNIT)) + 6 * UNIT
    return g.abs() * error + exponential(g)


def exponential(x: Tensor) -> Tensor:
    """E(x): relative error of e^x, x [...]."""
    return EXP + 2 * UNIT * x.abs()


def _wide(records: Records) -> Records:
    return Records(records.correction.double(), records.key, records.decay)
