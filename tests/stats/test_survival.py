"""Survival of the first divergence against closed forms, lifelines and simulations with a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lifelines import KaplanMeierFitter
from lifelines.utils import restricted_mean_survival_time

from replaycheck.stats.survival import Survival, first_of_traces, survival

Cases = tuple[np.ndarray, np.ndarray]


def exponential(n: int, mean: float, limit: int, seed: int) -> Cases:
    """Offsets and censoring of ``n`` traces that diverge at a constant hazard and end at ``limit``."""
    true = np.random.default_rng(seed).exponential(mean, n)
    return np.minimum(np.ceil(true), limit).astype(np.int64), true > limit


def test_survival_of_a_textbook_case() -> None:
    """Deaths at 1, 3 and 4, censored at 2 and 5: 4/5, then 4/5·2/3, then 4/5·2/3·1/2."""
    curve = survival(np.array([1, 2, 3, 4, 5]), np.array([False, True, False, False, True]))
    assert list(curve.tokens) == [1, 2, 3, 4, 5]
    assert curve.share == pytest.approx([4 / 5, 4 / 5, 8 / 15, 4 / 15, 4 / 15], rel=1e-14)  # three products in float64
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
    true, limit = rng.exponential(1700, 4000), 1000  # the mean of the diverged ones alone is 566
    curve = survival(np.minimum(true, limit).astype(np.int64) + 1, true > limit)
    # Binomial standard deviation of the share at 512 is 0.0069; four of them.
    assert abs(curve.at(512) - math.exp(-512 / 1700)) < 4 * 0.0069


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_and_its_band_are_those_of_lifelines(seed: int) -> None:
    offsets, censored = exponential(40, 300, 400, seed)
    censored |= np.random.default_rng(seed).random(40) < 0.2
    curve = survival(offsets, censored)
    theirs = KaplanMeierFitter().fit(offsets, ~censored)
    for offset in (int(curve.tokens[9]), 100, 256, 399):
        ours = curve.share_at(offset)
        assert ours.value == pytest.approx(float(theirs.predict(offset)), rel=1e-12)
        band = theirs.confidence_interval_.loc[:offset].iloc[-1]
        assert (ours.low, ours.high) == pytest.approx(tuple(band), rel=1e-9)
        at_risk = int((theirs.durations >= offset).sum())
        assert curve.at_risk_at(offset) == at_risk


def test_the_restricted_mean_is_that_of_lifelines_and_its_error_covers_the_truth() -> None:
    offsets, censored = exponential(64, 300, 400, 0)
    mean = restricted_mean_survival_time(KaplanMeierFitter().fit(offsets, ~censored), t=256)
    assert survival(offsets, censored).restricted_mean(256) == pytest.approx(float(mean), rel=1e-9)
    # Tokens are whole: the chance to last t of them is exp(-t / 300), the area a sum over t = 0 … 255.
    truth = sum(math.exp(-t / 300) for t in range(256))
    found = [survival(*exponential(64, 300, 400, seed)).restricted_mean_estimate(256) for seed in range(200)]
    inside = [each.low is not None and each.high is not None and each.low < truth < each.high for each in found]
    assert 0.90 <= np.mean(inside) <= 0.99  # 95 % less three standard deviations of 200 replicates, .015 each


def test_without_censoring_the_error_of_the_restricted_mean_is_that_of_a_mean() -> None:
    offsets = np.array([3, 7, 20, 41, 90, 200])
    curve = survival(offsets, np.zeros(6, bool))
    assert curve.restricted_mean(10_000) == pytest.approx(offsets.mean())
    assert curve.restricted_mean_error(10_000) == pytest.approx(offsets.std() / math.sqrt(6))


def test_the_band_covers_the_truth() -> None:
    truth = math.exp(-256 / 600)
    found = [survival(*exponential(48, 600, 1024, seed)).share_at(256) for seed in range(300)]
    inside = [each.low is not None and each.high is not None and each.low < truth < each.high for each in found]
    assert 0.91 <= np.mean(inside) <= 0.985  # three standard deviations of 300 replicates are .038


def test_the_mean_of_the_diverged_alone_is_far_from_the_truth() -> None:
    """In one simulation it was 566 when the truth was 1703, with 24 of 64 traces diverged."""
    offsets, censored = exponential(4000, 1703, 1000, 1)
    assert offsets[~censored].mean() < 0.3 * 1703
    restricted = 1703 * (1 - math.exp(-1000 / 1703))
    # Of 4,000 traces its standard error is 0.7 %.
    assert survival(offsets, censored).restricted_mean(1000) == pytest.approx(restricted, rel=3 * 0.007)


def share(curve: Survival, offset: int) -> tuple[float | None, float | None, float | None]:
    found = curve.share_at(offset)
    return found.value, found.low, found.high


def test_no_divergence_has_the_exact_bound_of_the_cases_seen_so_far() -> None:
    curve = survival(np.array([100, 256, 300, 300]), np.array([True] * 4))
    assert share(curve, 256) == (1, pytest.approx(0.05 ** (1 / 3)), 1)
    assert curve.share_at(1024).value is None
    assert "no case was observed for 1024" in curve.share_at(1024).method


def test_when_all_have_parted_the_upper_side_is_that_of_the_step_before() -> None:
    curve = survival(np.array([1, 2, 3]), np.zeros(3, bool))
    assert share(curve, 3) == (0, 0, share(curve, 2)[2])
    assert share(survival(np.array([5, 5]), np.zeros(2, bool)), 9) == (0, 0, pytest.approx(1 - 0.05**0.5))


def test_half_of_the_branches_have_parted_when_the_share_is_exactly_a_half() -> None:
    assert survival(np.array([3, 8]), np.zeros(2, bool)).median() == 3


def test_a_restricted_mean_is_known_beyond_the_last_divergence_if_all_have_parted() -> None:
    found = survival(np.array([1, 2, 3]), np.zeros(3, bool)).restricted_mean_estimate(10)
    assert (found.value, found.n) == (2, 3)


def test_the_interval_of_a_restricted_mean_stays_between_0_and_the_horizon() -> None:
    early = survival(np.array([1, 1, 100]), np.zeros(3, bool)).restricted_mean_estimate(100)
    late = survival(np.array([1, 100, 100, 100]), np.array([False, True, True, True])).restricted_mean_estimate(100)
    assert early.low == 0 and early.high is not None and early.high < 100
    assert late.high == 100 and late.low is not None and late.low > 0


def test_a_restricted_mean_beyond_every_case_is_not_given() -> None:
    found = survival(np.array([10, 20]), np.array([False, True])).restricted_mean_estimate(21)
    assert (found.value, found.n) == (None, 2)
    assert "the longest has 20" in found.method
    assert survival(np.array([10, 20]), np.array([False, True])).restricted_mean_estimate(20).value == 15


def test_a_trace_is_one_case_its_earliest_divergence_or_its_longest_branch() -> None:
    offsets = np.array([9, 4, 30, 50, 7, 7])
    censored = np.array([False, True, False, True, True, True])
    first, ended = first_of_traces(offsets, censored, np.array([0, 0, 0, 2, 2, 5]))
    assert list(first) == [9, 50, 7]
    assert list(ended) == [False, True, True]
