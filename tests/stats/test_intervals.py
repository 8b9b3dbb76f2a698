"""Intervals, quantiles and survival against closed forms and against scipy by another road."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats.intervals import cluster_t, proportion, upper_bound
from replaycheck.stats.quantiles import quantiles
from replaycheck.stats.survival import survival


def test_cluster_t_of_two_values_is_the_closed_form() -> None:
    # One degree of freedom is a Cauchy: its 97.5 % quantile is tan(0.475 π).
    low, high = cluster_t(np.array([1.0, 3.0])) or (0, 0)
    assert math.isclose(high - 2, math.tan(0.475 * math.pi), rel_tol=1e-12)
    assert math.isclose(2 - low, high - 2, rel_tol=1e-12)


def test_cluster_t_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).normal(size=12)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert np.allclose(cluster_t(values) or (), expected, rtol=1e-12)


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
    assert np.allclose(proportion(events, n), expected, rtol=1e-9)


def test_proportion_at_the_ends_stays_inside() -> None:
    assert proportion(0, 5).low == 0
    assert proportion(5, 5).high == 1


@pytest.mark.parametrize(("events", "n"), [(1, 0), (0, 0), (3, 2), (-1, 2)])
def test_what_is_no_proportion_is_refused(events: int, n: int) -> None:
    with pytest.raises(InternalError):
        proportion(events, n)


def test_quantiles_are_observed_values() -> None:
    values = np.arange(1, 1001)[::-1] / 1000
    assert quantiles(values) == {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    assert quantiles(np.array([7.0])) == dict.fromkeys(["p50", "p90", "p99", "p999", "max"], 7.0)
    assert quantiles(np.array([])) == {}


def test_survival_of_a_textbook_case() -> None:
    """Deaths at 1, 3 and 4, censored at 2 and 5: 4/5, then 4/5·2/3, then 4/5·2/3·1/2."""
    curve = survival(np.array([1, 2, 3, 4, 5]), np.array([False, True, False, False, True]))
    assert list(curve.tokens) == [1, 2, 3, 4, 5]
    assert np.allclose(curve.share, [4 / 5, 4 / 5, 8 / 15, 4 / 15, 4 / 15])
    assert list(curve.at_risk) == [5, 4, 3, 2, 1]
    assert list(curve.censored) == [2, 5]
    assert (curve.at(0), curve.at(1), curve.at(100)) == pytest.approx((1, 4 / 5, 4 / 15))
    assert curve.median() == 4
    assert curve.restricted_mean(4) == pytest.approx(1 + 4 / 5 + 4 / 5 + 8 / 15)
    assert curve.restricted_mean(10) == pytest.approx(1 + 4 / 5 + 4 / 5 + 8 / 15 + 6 * 4 / 15)


def test_survival_without_a_divergence_stays_at_one() -> None:
    curve = survival(np.array([5, 7]), np.array([True, True]))
    assert curve.at(100) == 1
    assert curve.median() is None
    assert curve.restricted_mean(6) == 6


def test_survival_matches_the_share_of_an_exponential_with_censoring() -> None:
    rng = np.random.default_rng(0)
    true, limit = rng.exponential(1700, 4000), 1000  # statistics.md C.4: the mean of the diverged ones alone is 566
    curve = survival(np.minimum(true, limit).astype(np.int64) + 1, true > limit)
    # Binomial standard deviation of the share at 512 is 0.0069; four of them.
    assert abs(curve.at(512) - math.exp(-512 / 1700)) < 4 * 0.0069
