"""How far a rebuilt state may lie from a sequential one, from counting roundings; no fitted tolerance.

Both forms take the same numbers (u in fp32, k̂ and decays with equal bits) and differ in the order of fp32 operations. One
operation errs by at most ε = 2^-24 of its result, and a product of m such factors by at most γ_m = m·ε/(1 − m·ε) (Higham,
Accuracy and Stability of Numerical Algorithms, lemma 3.1). Roundings that a term of S_n meets on its way into an element:

    sequential   S_0: n products, n sums                            ≤ 2n
                 term t: u·k̂, one sum, then a product and a sum a token   ≤ 2n
    reverse      S_0: n − 1 products into D, ·S_0, the last sum             n + 1
                 term t: n − t − 1 products into D, k̂·D, ·u, t sums, the last sum   n + 2

so each is off by at most γ times the sum of absolute values B (``commit.magnitude``), and the two by the sum of both. A
fused multiply-add rounds less often. For a window of 8 tokens: 26·2^-24 = 1.6e-6, the "about 1e-6" of a full-size state.
"""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = 2.0**-24
"""Largest relative error of one fp32 operation, rounding to nearest."""

FLUSHED = 2.0**-126
"""Largest absolute error of one operation whose result is below the normal range, even if it is flushed to zero."""


def gamma(roundings: Tensor) -> Tensor:
    """γ_m for counts m [...], fp64."""
    return roundings * UNIT / (1 - roundings * UNIT)


def association_bound(lengths: Tensor, magnitude: Tensor) -> Tensor:
    """Largest |rebuilt − sequential| of each element, in fp32 before any cast.

    Args:
        lengths: [R] tokens kept. magnitude: [R, HV, V, K], ``commit.magnitude``.

    Returns:
        [R, HV, V, K] fp64; zero where nothing is kept.
    """
    n = lengths.double()[:, None, None, None]
    relative = torch.where(n > 0, gamma(2 * n) + gamma(n + 2), 0.0)
    return relative * magnitude + 4 * n * FLUSHED


def excess(rebuilt: Tensor, sequential: Tensor, allowed: Tensor) -> float:
    """Largest |rebuilt − sequential| in units of ``allowed``, all [R, HV, V, K]; infinite if one isn't a number.

    Where nothing is allowed the unit is the smallest fp32 number, so that equal states give 0.
    """
    difference = (rebuilt.double() - sequential.double()).abs()
    share = difference / allowed.clamp(min=2.0**-149)
    worst = float(share.max()) if share.numel() else 0.0
    return worst if worst == worst else float("inf")
