"""Flips by margin: expected numbers against simulated noise, and a fault that totals hide."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats.flips import SPREADS, count_flips

RNG = np.random.default_rng(0)
MARGIN = RNG.exponential(2, 20_000)
SPREAD = 0.1


def flipped_by_noise(seed: int) -> np.ndarray:
    """Independent noise on the two logits; also what the margin changed by."""
    noise = np.random.default_rng(seed).normal(0, SPREAD, (2, len(MARGIN)))
    return noise[0] - noise[1]


def test_as_many_flips_as_noise_makes() -> None:
    flips = [int((flipped_by_noise(seed) > MARGIN).sum()) for seed in range(100)]
    expected = count_flips(MARGIN, np.zeros(len(MARGIN), np.bool_), SPREAD).expected
    # The count is nearly Poisson; three standard errors of the mean of 100.
    assert np.mean(flips) == pytest.approx(expected, abs=3 * np.sqrt(expected / 100))


@pytest.mark.parametrize("spread", [SPREAD, 1.0])
def test_one_margin_has_the_closed_form(spread: float) -> None:
    found = count_flips(np.array([6 * spread]), np.array([False]), spread)
    assert found.expected == pytest.approx(stats.norm.sf(6 / np.sqrt(2)))
    assert stats.norm.sf(SPREADS / np.sqrt(2)) == pytest.approx(1.1e-5, rel=0.01)


def test_p_of_one_flip_is_the_chance_of_any() -> None:
    margin = np.full(10, 6.5 * SPREAD)
    found = count_flips(margin, np.arange(10) == 0, SPREAD)
    assert found.expected_above == pytest.approx(10 * stats.norm.sf(6.5 / np.sqrt(2)))
    exact = -np.expm1(10 * np.log1p(-stats.norm.sf(6.5 / np.sqrt(2))))
    assert exact <= found.p_above == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("events", [1, 6, 10, 11, 12, 16, 20])
def test_p_is_at_least_that_of_the_exact_law(events: int) -> None:
    """Against the sum of independent flips, built one by one: 9.3 are expected."""
    chance = stats.norm.sf(MARGIN[:60] / (SPREAD * np.sqrt(2)) / 8)
    law = np.array([1.0])
    for each in chance:
        law = np.convolve(law, [1 - each, each])
    found = count_flips(MARGIN[:60], np.arange(60) < events, 8 * SPREAD)
    exact = law[events:].sum()
    assert found.expected == pytest.approx(chance.sum())
    assert exact <= found.p <= 1
    assert events < 11 or found.p < exact + 0.05


def test_a_fault_hides_in_the_total_and_shows_above_the_margin() -> None:
    """It moved the total from 41 to 51 (p = .50), and flips above 3 s from 0 to 8."""
    margin = MARGIN[:2000]
    noise = flipped_by_noise(8)[:2000] > margin
    fault = noise.copy()
    large = np.flatnonzero(margin > 10 * SPREAD)
    fault[large[:8]] = True
    clean, faulty = (count_flips(margin, each, SPREAD) for each in (noise, fault))
    assert (clean.above, faulty.above) == (0, 8)
    assert faulty.flips == clean.flips + 8
    assert faulty.p > 0.05
    assert faulty.p_above < 1e-12
    assert clean.largest_margin is not None and clean.largest_margin < 6 * SPREAD


def test_noise_alone_is_rarely_called_too_much() -> None:
    p = [count_flips(MARGIN, flipped_by_noise(seed) > MARGIN, SPREAD).p for seed in range(100)]
    assert np.mean(np.array(p) < 0.05) <= 0.11  # 5 % and three standard deviations of 100 replicates


def test_ties_and_router_flips_are_counted_apart() -> None:
    margin = np.array([0.0, 0.0, 5.0, 5.0, 0.0, 1.0])
    flipped = np.array([True, False, True, True, True, False])
    router = np.array([False, False, True, False, True, False])
    found = count_flips(margin, flipped, 0.1, router=router)
    assert (found.positions, found.flips, found.above, found.ties, found.router) == (2, 1, 1, 1, 2)
    assert found.bound == pytest.approx(0.6)


def test_a_flip_on_the_bound_is_not_above_and_without_noise_every_flip_is() -> None:
    assert count_flips(np.array([1.5]), np.array([True]), 0.25).above == 0
    exact = count_flips(np.array([1e-9, 2.0]), np.array([True, False]), 0.0)
    assert (exact.above, exact.expected, exact.p_above) == (1, 0, 0)


def test_no_positions_no_flips() -> None:
    found = count_flips(np.array([]), np.array([], bool), 0.1)
    assert (found.flips, found.p, found.largest_margin) == (0, 1, None)


def test_a_negative_margin_is_refused() -> None:
    with pytest.raises(InternalError, match="at least 0"):
        count_flips(np.array([-0.1]), np.array([True]), 0.1)
