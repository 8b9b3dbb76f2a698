"""Two samples against scipy's own tests, which take the values one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp

from replaycheck.stats.two_samples import compare_kinds, compare_numbers


@pytest.mark.parametrize(("shift", "n", "m"), [(0, 400, 700), (3, 400, 700), (0, 5, 2000)])
def test_numbers_are_compared_as_scipy_does(shift: int, n: int, m: int) -> None:
    random = np.random.default_rng(shift)
    source, drawn = random.poisson(20, n), random.poisson(20 + shift, m)
    ours = compare_numbers(Counter(source.tolist()), Counter(drawn.tolist()))
    theirs = ks_2samp(source, drawn, method="asymp")
    assert (ours.n_source, ours.n_drawn) == (n, m)
    assert ours.distance == pytest.approx(theirs.statistic, abs=1e-12)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_equal_and_disjoint_samples_are_the_ends() -> None:
    same = compare_numbers({1: 50, 2: 50}, {1: 50, 2: 50})
    apart = compare_numbers({1: 100}, {2: 100})
    assert (same.distance, same.p) == (0.0, 1.0)
    assert apart.distance == 1.0
    assert apart.p is not None
    assert apart.p < 1e-9


def test_kinds_are_compared_by_total_variation() -> None:
    found = compare_kinds(Counter(a=60, b=40), Counter(a=30, b=50, c=20))
    assert found.distance == pytest.approx(0.3)
    assert found.p is not None
    assert found.p < 1e-3
    assert compare_kinds(Counter(a=5), Counter(a=9)).p is None, "one kind leaves nothing to test"


def test_a_kind_with_equal_counts_in_unequal_samples_counts() -> None:
    found = compare_kinds(Counter(a=10, b=10), Counter(a=10, b=30))
    assert (found.distance, found.n_source, found.n_drawn) == (0.25, 20, 40)
    assert found.p == pytest.approx(chi2_contingency([[10, 10], [10, 30]]).pvalue)


def test_the_smallest_samples_have_the_p_of_scipy() -> None:
    assert compare_numbers({1: 1}, {1: 1, 2: 1}).p == pytest.approx(ks_2samp([1], [1, 2], method="asymp").pvalue)


def test_an_empty_sample_says_nothing() -> None:
    assert compare_numbers({}, {1: 2}).distance is None
    assert compare_kinds(Counter(), Counter(a=1)).p is None
