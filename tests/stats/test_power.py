"""Power: against statsmodels, against simulation, and the numbers that docs/statistics.md promises."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from replaycheck.errors import InternalError
from replaycheck.stats.equivalence import Reading, tost, tost_ratio
from replaycheck.stats.power import no_worse_power, tost_power, traces_for_no_worse, traces_for_tost


@pytest.mark.parametrize(("n", "stated"), [(8, 0.03), (16, 0.23), (32, 0.73), (64, 0.98), (128, 1.0)])
def test_power_at_half_a_standard_deviation(n: int, stated: float) -> None:
    """Simulations of about 1,000 replicates: two of their standard deviations are up to .03."""
    assert tost_power(n, margin=0.5, spread=1) == pytest.approx(stated, abs=0.03)


@pytest.mark.parametrize(("n", "difference"), [(3, 0.0), (16, 0.0), (32, 0.2), (32, -0.2), (48, 0.5)])
def test_power_is_what_a_simulation_finds(n: int, difference: float) -> None:
    values = np.random.default_rng(n).normal(2 * difference, 2, (600, n))
    called = np.mean([tost(each, 1.0).reading is Reading.EQUIVALENT for each in values])
    exact = tost_power(n, 1.0, 2.0, difference=2 * difference)
    # Three standard deviations of 600 replicates, and one of them more where hardly any is called.
    assert called == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / 600) + 1 / 600)


def test_power_of_no_worse_is_that_of_statsmodels() -> None:
    for n, effect in [(2, 3.0), (5, 0.3), (30, 0.5), (200, 0.1)]:
        theirs = TTestPower().power(effect, n, 0.05, alternative="larger")
        assert no_worse_power(n, effect, 1) == pytest.approx(float(theirs), rel=1e-6)
    assert traces_for_no_worse(0.5, 1) == int(np.ceil(TTestPower().solve_power(0.5, None, 0.05, 0.8, "larger")))


def test_far_from_the_other_margin_tost_is_a_one_sided_test() -> None:
    """At a difference near one margin the other one doesn't matter any more."""
    assert tost_power(50, 2, 1, difference=1.6) == pytest.approx(no_worse_power(50, 2, 1, value=1.6), rel=1e-5)


@pytest.mark.parametrize("margin", [0.25, 0.5, 1, 3])
def test_the_number_of_traces_is_the_smallest_that_does(margin: float) -> None:
    n = traces_for_tost(margin, 1)
    assert n is not None
    assert tost_power(n - 1, margin, 1) < 0.8 <= tost_power(n, margin, 1)


def test_fewer_than_32_traces_prove_nothing_at_half_a_standard_deviation() -> None:
    assert traces_for_tost(0.5, 1) == 36


def test_plans_out_of_reach_and_the_ends() -> None:
    assert traces_for_tost(1e-4, 1) is None
    assert traces_for_tost(0.5, 1, difference=0.5) is None
    assert traces_for_no_worse(0.5, 1, value=0.6) is None
    assert (tost_power(1, 1, 1), no_worse_power(1, 1, 1)) == (0, 0)
    assert (tost_power(2, 1, 0), tost_power(2, 1, 0, difference=1)) == (1, 0)
    assert traces_for_tost(1, 0) == 2
    assert (no_worse_power(2, 1, 0), no_worse_power(2, 1, 0, value=1)) == (1, 0)
    for power in (0, 1):
        with pytest.raises(InternalError, match="between 0 and 1"):
            traces_for_tost(1, 1, power=power)


def test_what_lies_on_the_margin_is_out_of_reach_however_little_power_is_asked_for() -> None:
    assert traces_for_tost(0.5, 1, power=0.01, difference=0.5) is None
    assert traces_for_tost(0.5, 1, power=0.01, difference=-0.5) is None
    assert traces_for_no_worse(0.5, 1, power=0.01, value=0.5) is None


def test_only_the_distance_from_the_bound_in_spreads_counts() -> None:
    assert no_worse_power(9, 5, 4, value=2) == pytest.approx(no_worse_power(9, 0.75, 1), rel=1e-12)
    assert tost_power(9, 4, 4, difference=1) == pytest.approx(tost_power(9, 1, 1, difference=0.25), rel=1e-12)


def test_a_size_that_was_planned_from_a_ratio_reaches_its_power() -> None:
    """room and spread of a pilot give the n at which a true ratio of 1 is shown to be under 1.5, as a gate says it."""
    rng = np.random.default_rng(1)

    def arms(n: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.lognormal(0, 0.5, n), rng.lognormal(0, 0.5, n)

    pilot = tost_ratio(*arms(2000), 1.5)
    assert pilot.spread is not None
    n = traces_for_no_worse(pilot.room, pilot.spread)
    assert n is not None
    highs = [tost_ratio(*arms(n), 1.5).estimate.high for _ in range(400)]
    # A share of 400 has a standard deviation of .02, and the pilot's spread is off by up to 2 %: .01 of power.
    assert np.mean([high is not None and high < 1.5 for high in highs]) == pytest.approx(0.8, abs=3 * 0.02 + 0.01)
