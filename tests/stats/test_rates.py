"""Planning of exact rates against closed forms and direct sums of the binomial."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats.intervals import upper_bound
from replaycheck.stats.rates import clean_runs_needed, events_allowed, exceeds_floor, rate_power, runs_needed


@pytest.mark.parametrize(("rate", "runs"), [(0.01, 299), (0.05, 59), (0.5, 5), (0.001, 2995)])
def test_clean_runs_prove_a_rate(rate: float, runs: int) -> None:
    assert clean_runs_needed(rate) == runs
    assert upper_bound(0, runs) <= rate < upper_bound(0, runs - 1)


def test_the_next_run_is_the_largest_as_often_as_any_other() -> None:
    runs = np.random.default_rng(0).standard_cauchy((20_000, 10))
    beyond = np.mean(runs[:, 9] > runs[:, :9].max(axis=1))
    assert exceeds_floor(9) == pytest.approx(beyond, abs=3 * 0.0021)


def test_events_allowed_is_the_most_that_the_exact_bound_forgives() -> None:
    for n in (1, 58, 59, 92, 93, 300):
        allowed = events_allowed(n, 0.05)
        forgiven = [k for k in range(n) if upper_bound(k, n) <= 0.05]
        assert allowed == (max(forgiven) if forgiven else None)


def test_power_of_a_rate_is_what_a_simulation_finds() -> None:
    events = np.random.default_rng(0).binomial(200, 0.01, 4000)
    shown = np.mean([upper_bound(int(each), 200) <= 0.05 for each in events])
    assert rate_power(200, 0.05, 0.01) == pytest.approx(shown, abs=0.02)
    assert rate_power(58, 0.05, 0.0) == 0
    assert rate_power(59, 0.05, 0.0) == 1


@pytest.mark.parametrize(("rate", "true"), [(0.05, 0.01), (0.05, 0.0), (0.2, 0.1)])
def test_runs_needed_is_the_first_number_with_that_power(rate: float, true: float) -> None:
    found = runs_needed(rate, true)
    assert found is not None
    assert rate_power(found, rate, true) >= 0.8
    assert all(rate_power(n, rate, true) < 0.8 for n in range(max(1, found - 60), found))


def test_a_true_rate_at_the_bound_can_never_be_shown() -> None:
    assert runs_needed(0.05, 0.05) is None
    assert stats.binom.cdf(0, 59, 0.05) <= 0.05
    with pytest.raises(InternalError, match="between 0 and 1"):
        clean_runs_needed(0)
