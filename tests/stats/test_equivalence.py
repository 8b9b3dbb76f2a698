"""TOST and "no worse": against statsmodels, and by their size where the truth lies on the margin."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.weightstats import DescrStatsW, ttost_paired

from replaycheck.errors import InternalError
from replaycheck.stats import equivalence
from replaycheck.stats.equivalence import Reading, no_worse, tost, tost_ratio
from replaycheck.stats.estimate import Estimated


def test_tost_has_the_p_and_the_interval_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 40))
    found = tost(a - b, 0.6)
    p, _, _ = ttost_paired(a, b, -0.6, 0.6)
    assert found.p == pytest.approx(p, rel=1e-9)
    expected = DescrStatsW(a - b).tconfint_mean(alpha=0.1)
    assert (found.estimate.low, found.estimate.high) == pytest.approx(expected, rel=1e-9)
    assert found.spread == pytest.approx((a - b).std(ddof=1))


@pytest.mark.parametrize(
    ("values", "reading"),
    [
        ([-0.1, 0.1, 0.0, 0.05], Reading.EQUIVALENT),
        ([0.4, 0.45, 0.5, 0.42], Reading.EQUIVALENT),  # not zero, and inside the margin
        ([2.0, 2.1, 1.9, 2.0], Reading.DIFFERENT),
        ([-2.0, -2.1, -1.9, -2.0], Reading.DIFFERENT),
        ([0.8, 1.2, 0.7, 1.3], Reading.UNDECIDED),
        ([-0.8, -1.2, -0.7, -1.3], Reading.UNDECIDED),
        ([-3.0, 3.0, 1.0, -1.0], Reading.INCONCLUSIVE),
        ([0.0], Reading.INCONCLUSIVE),
        ([], Reading.INCONCLUSIVE),
        ([0.0, 0.0], Reading.EQUIVALENT),
        ([1.0, 1.0], Reading.DIFFERENT),  # on the margin isn't inside
        ([-1.0, -1.0], Reading.DIFFERENT),
    ],
)
def test_four_readings(values: list[float], reading: Reading) -> None:
    found = tost(np.array(values), 1.0)
    assert found.reading is reading
    assert (found.p is not None and found.p <= 0.05) == (reading is Reading.EQUIVALENT)


def test_the_reading_follows_p_exactly() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        found = tost(rng.normal(0.2, 1, 24), 0.5)
        assert found.p is not None
        assert (found.reading is Reading.EQUIVALENT) == (found.p < 0.05)
        found = tost_ratio(rng.exponential(1, 40), rng.exponential(1, 40), 1.5)
        assert found.p is not None
        assert (found.reading is Reading.EQUIVALENT) == (found.p < 0.05)


@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (-2.0, 0.0)])
def test_an_interval_that_ends_at_no_difference_holds_it(low: float, high: float) -> None:
    found = Estimated(low / 2 + high / 2, 9, "an interval", low, high)
    assert equivalence._read(found, -1.0, 0.0, 1.0) is Reading.INCONCLUSIVE


def test_of_a_ratio_1_is_no_difference() -> None:
    floor = np.random.default_rng(5).uniform(0.9, 1.1, 40)
    noise = np.random.default_rng(6).normal(0, 0.15, 40)
    assert tost_ratio(1.4 * floor + noise, floor, 1.4).reading is Reading.UNDECIDED
    assert tost_ratio(1.0 * floor + 8 * noise, floor, 1.2).reading is Reading.INCONCLUSIVE


def test_a_ratio_carries_its_margins_and_what_its_power_depends_on() -> None:
    values, floor = np.random.default_rng(7).exponential(1, (2, 30))
    found = tost_ratio(values, floor, 1.5)
    assert (found.low_margin, found.high_margin) == (1 / 1.5, 1.5)
    assert found.room == pytest.approx(floor.mean() * 0.5)
    assert found.spread == pytest.approx((values - 1.5 * floor).std(ddof=1))
    nothing = tost_ratio(values[:0], floor[:0], 1.5)
    assert (nothing.room, nothing.spread, nothing.p) == (0, None, None)


def test_the_size_on_the_margin_is_alpha() -> None:
    """On the margin, docs/statistics.md has .016 to .050. Three standard deviations of 1,000 replicates are .021."""
    rng = np.random.default_rng(2)
    called = [tost(rng.normal(0.5, 1, 64), 0.5).reading is Reading.EQUIVALENT for _ in range(1000)]
    assert 0.029 <= np.mean(called) <= 0.071


def test_a_ratio_on_its_bound_is_passed_in_five_of_a_hundred() -> None:
    """Skewed trace means with what traces have in common: the one-sided t test errs by a few in a hundred."""
    rng = np.random.default_rng(3)
    passed, failed = [], []
    for _ in range(600):
        common = rng.lognormal(0, 0.5, 64)
        floor, values = (common * rng.lognormal(-0.045, 0.3, 64) for _ in range(2))
        found = tost_ratio(1.25 * values, floor, 1.25)
        passed.append(found.reading is Reading.EQUIVALENT)
        failed.append(found.reading is Reading.DIFFERENT)
    assert 0.025 <= np.mean(passed) <= 0.08
    assert 0.025 <= np.mean(failed) <= 0.08


def test_no_worse_says_yes_no_and_cannot_tell() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0])
    assert no_worse(values, 2).holds is True
    assert no_worse(values, 0.5).holds is False
    assert no_worse(values, 1.05).holds is None
    assert no_worse(values[:1], 2).holds is None
    assert no_worse(np.zeros(4), 0.1).holds is True
    assert no_worse(values, 1.0).holds is None  # exactly on the bound: neither under nor above


def test_a_p_equal_to_alpha_is_enough() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0])
    under, above = no_worse(values, 1.03), no_worse(values, 0.97)
    assert under.p is not None and above.p_worse is not None
    assert no_worse(values, 1.03, under.p).holds is True
    assert no_worse(values, 0.97, above.p_worse).holds is False


def test_values_on_the_bound_are_neither_under_nor_above() -> None:
    found = no_worse(np.full(4, 2.0), 2.0)
    assert (found.p, found.p_worse, found.holds) == (1, 1, None)


def test_no_worse_is_half_of_tost() -> None:
    values = np.random.default_rng(4).normal(0.3, 1, 30)
    both, one = tost(values, 0.5), no_worse(values, 0.5)
    assert one.p == both.p  # the mean is positive, so the upper side decides
    assert one.p_worse == pytest.approx(1 - (one.p or 0))
    assert one.estimate == both.estimate


def test_a_ratio_needs_a_floor() -> None:
    found = tost_ratio(np.ones(4), np.zeros(4), 2)
    assert (found.estimate.value, found.reading) == (None, Reading.INCONCLUSIVE)


@pytest.mark.parametrize("margin", [0, -1, np.nan, np.inf])
def test_a_margin_must_be_a_positive_number(margin: float) -> None:
    with pytest.raises(InternalError, match="fixed before looking"):
        tost(np.zeros(4), margin)
    with pytest.raises(InternalError, match="above 1"):
        tost_ratio(np.ones(4), np.ones(4), margin)


def test_a_factor_of_1_allows_nothing() -> None:
    with pytest.raises(InternalError, match="above 1"):
        tost_ratio(np.ones(4), np.ones(4), 1)


def test_two_traces_have_a_spread_and_one_has_none() -> None:
    assert tost(np.array([0.1, 0.3]), 1.0).spread == pytest.approx(0.2 / np.sqrt(2))
    assert tost(np.array([0.1]), 1.0).spread is None
