"""Intervals and quantiles against closed forms and against scipy by another road."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats.intervals import cluster_t, fieller, mean_of, proportion, rate, upper_bound
from replaycheck.stats.quantiles import quantiles


def test_cluster_t_of_two_values_is_the_closed_form() -> None:
    # One degree of freedom is a Cauchy: its 97.5 % quantile is tan(0.475 π).
    low, high = cluster_t(np.array([1.0, 3.0])) or (0, 0)
    assert math.isclose(high - 2, math.tan(0.475 * math.pi), rel_tol=1e-12)
    assert math.isclose(2 - low, high - 2, rel_tol=1e-12)


def test_cluster_t_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).normal(size=12)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert cluster_t(values) == pytest.approx(tuple(expected), rel=1e-14)  # the same formula in float64


def test_cluster_t_of_one_cluster_is_unknown_and_of_equal_ones_a_point() -> None:
    assert cluster_t(np.array([1.0])) is None
    assert cluster_t(np.zeros(5)) == (0, 0)


@pytest.mark.parametrize("n", [1, 10, 59, 299, 100_000])
def test_no_event_gives_the_rule_of_three(n: int) -> None:
    bound = upper_bound(0, n)
    assert math.isclose(bound, 1 - 0.05 ** (1 / n), rel_tol=1e-9)
    assert bound < 3 / n  # the rule rounds -log 0.05 = 2.996 up


def test_299_clean_runs_prove_one_percent_and_298_do_not() -> None:
    assert upper_bound(0, 299) <= 0.01 < upper_bound(0, 298)


@pytest.mark.parametrize(("events", "n"), [(1, 7), (6, 100), (99, 100)])
def test_proportion_is_clopper_and_pearson(events: int, n: int) -> None:
    expected = stats.binomtest(events, n).proportion_ci(0.95, method="exact")
    found = proportion(events, n)
    # Both solve for the quantile of a beta distribution; scipy stops at 2e-12 of it.
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-11)


def test_proportion_at_the_ends_stays_inside() -> None:
    assert proportion(0, 5).low == 0
    assert proportion(5, 5).high == 1


@pytest.mark.parametrize(("events", "n"), [(1, 0), (0, 0), (3, 2), (-1, 2)])
def test_what_is_no_proportion_is_refused(events: int, n: int) -> None:
    with pytest.raises(InternalError, match=f"{events} events of {n} isn't a proportion"):
        proportion(events, n)


def test_quantiles_are_observed_values() -> None:
    values = np.arange(1, 1001)[::-1] / 1000
    assert quantiles(values) == {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    assert quantiles(np.array([7.0])) == dict.fromkeys(["p50", "p90", "p99", "p999", "max"], 7.0)
    assert quantiles(np.array([])) == {}


def test_a_mean_carries_its_interval_n_and_method() -> None:
    values = np.random.default_rng(0).normal(size=12)
    found = mean_of(values)
    assert (found.low, found.high) == cluster_t(values)
    assert (found.value, found.n, found.method) == (values.mean(), 12, "cluster-t, 95%")
    assert mean_of(np.array([2.0])).low is None
    assert (mean_of(np.array([])).value, mean_of(np.array([])).n) == (None, 0)


def test_a_rate_of_nothing_in_ten_still_allows_26_percent() -> None:
    """The two-sided bound is 30.8 %; no event can't lie below 0, so ours is one-sided."""
    found = rate(0, 10)
    assert (found.value, found.low, found.high) == (0, 0, pytest.approx(1 - 0.05**0.1))
    assert stats.binomtest(0, 10).proportion_ci(0.95).high == pytest.approx(0.308, abs=5e-4)
    assert "one-sided" in found.method
    assert "two-sided" in rate(1, 10).method
    assert rate(1, 10).value == 0.1


def test_fieller_holds_the_ratios_that_a_t_test_does_not_reject() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.exponential(1, 20), rng.exponential(1, 20) + 0.5
    found = fieller(a, b)
    assert found.low is not None and found.high is not None
    for edge in (found.low, found.high):
        assert stats.ttest_1samp(a - edge * b, 0).pvalue == pytest.approx(0.05, rel=1e-6)
    assert stats.ttest_1samp(a - (found.low + found.high) / 2 * b, 0).pvalue > 0.05
    assert found.value == a.mean() / b.mean()


def test_fieller_of_two_clusters_has_an_interval_and_of_one_a_value_alone() -> None:
    two = fieller(np.array([4.0, 4.2]), np.array([2.0, 2.0]), 0.5)
    assert two.low is not None and two.high is not None and two.low < 2.05 < two.high
    one = fieller(np.array([3.0]), np.array([2.0]))
    assert (one.value, one.n, one.low, one.high) == (1.5, 1, None, None)
    assert fieller(np.array([]), np.array([])).value is None


def test_fieller_of_a_denominator_that_may_be_zero_has_no_end() -> None:
    a, b = np.ones(6), np.array([1.0, -1, 1, -1, 1, -0.5])
    assert (fieller(a, b).value, fieller(a, b).low, fieller(a, b).high) == (pytest.approx(12), None, None)
    assert fieller(a, np.zeros(6)).value is None
    with pytest.raises(InternalError, match="can't be paired"):
        fieller(a, b[:5])


@pytest.mark.parametrize(("n", "least", "most"), [(8, 0.79, 0.90), (64, 0.89, 0.95)])
def test_coverage_with_heavy_tails_is_below_the_nominal_one(n: int, least: float, most: float) -> None:
    """A first simulation had .85 at 8 clusters, .92 at 64 (2 standard deviations of 600 replicates are .03 and .02)."""
    values = np.exp(np.random.default_rng(n).normal(size=(600, n)))
    inside = [low < math.exp(0.5) < high for low, high in (cluster_t(each) or (0, 0) for each in values)]
    assert least < np.mean(inside) < most
