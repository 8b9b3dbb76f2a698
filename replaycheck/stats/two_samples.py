"""Are two sets of counts from one distribution? Kolmogorov-Smirnov for numbers, total variation and χ² for kinds.

Counts are kept by value, so that memory follows the number of different values and not the number of traces. The p values
take observations as independent; turns of one trace aren't, so they describe and never judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2_contingency, kstwo

__all__ = ["TwoSample", "compare_kinds", "compare_numbers"]


@dataclass(frozen=True)
class TwoSample:
    """distance: the statistic, 0 … 1. p: None where a sample is empty or nothing can be said."""

    method: str
    distance: float | None
    p: float | None
    n_source: int
    n_drawn: int


def compare_numbers(source: Mapping[int, int], drawn: Mapping[int, int]) -> TwoSample:
    """Two-sample Kolmogorov-Smirnov with the asymptotic p of scipy's ks_2samp; with ties it errs upwards."""
    n, m = sum(source.values()), sum(drawn.values())
    if not n or not m:
        return TwoSample("KS", None, None, n, m)
    values = sorted({*source, *drawn})
    ours = np.cumsum([source.get(value, 0) for value in values]) / n
    theirs = np.cumsum([drawn.get(value, 0) for value in values]) / m
    distance = float(np.abs(ours - theirs).max())
    return TwoSample("KS", distance, float(kstwo.sf(distance, max(round(n * m / (n + m)), 1))), n, m)


def compare_kinds(source: Counter[str], drawn: Counter[str]) -> TwoSample:
    """Total variation distance of two shares, and the p value of a χ² test of both against their common shares."""
    n, m = source.total(), drawn.total()
    if not n or not m:
        return TwoSample("TV", None, None, n, m)
    kinds = sorted(kind for kind in {*source, *drawn} if source[kind] + drawn[kind])
    distance = sum(abs(source[kind] / n - drawn[kind] / m) for kind in kinds) / 2
    table = [[each[kind] for kind in kinds] for each in (source, drawn)]
    p = float(chi2_contingency(table).pvalue) if len(kinds) > 1 else None
    return TwoSample("TV", distance, p, n, m)
