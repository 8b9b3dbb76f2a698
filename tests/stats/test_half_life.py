"""How fast an error dies: exact decays, noisy ones, and the curves that were measured with a KDA kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replaycheck.errors import InternalError
from replaycheck.stats.half_life import MOST_POINTS, decay_rate, half_life

OFFSET = np.arange(256.0)


def noisy(rng: np.random.Generator, rate: float) -> np.ndarray:
    return np.asarray(np.exp(-rate * OFFSET) * np.abs(rng.standard_normal(len(OFFSET))))


def test_a_pure_decay_has_its_half_life() -> None:
    found = half_life(decay_rate(1e-3 * 0.5 ** (OFFSET / 20), OFFSET))
    assert (found.value, found.low, found.high) == pytest.approx((20, 20, 20))


def test_noise_and_three_outliers_in_ten_move_it_little() -> None:
    rng = np.random.default_rng(0)
    values = noisy(rng, 0.02)
    values[rng.random(256) < 0.3] *= 100
    # Over 200 seeds its standard deviation is 6.6 %, its mean 1 % off.
    assert half_life(decay_rate(values, OFFSET)).value == pytest.approx(math.log(2) / 0.02, rel=3 * 0.066)


def test_the_interval_of_one_curve_covers() -> None:
    rng, inside = np.random.default_rng(1), []
    for _ in range(100):
        found = decay_rate(noisy(rng, 0.02), OFFSET)
        inside.append(found.low is not None and found.high is not None and found.low <= 0.02 <= found.high)
    assert np.mean(inside) >= 0.88  # 95 % less three standard deviations of 100 replicates


def test_what_does_not_decay_has_no_upper_end() -> None:
    flat = half_life(decay_rate(np.abs(np.random.default_rng(2).standard_normal(256)), OFFSET))
    assert flat.high is None
    growing = half_life(decay_rate(np.exp(0.01 * OFFSET), OFFSET))
    assert (growing.value, growing.low, growing.high) == (None, None, None)


def test_the_fit_ends_at_the_floor() -> None:
    values = np.maximum(0.5 ** (OFFSET / 10), 1e-3)
    without = half_life(decay_rate(values, OFFSET)).value
    assert without is not None and without > 3 * 10  # 156 of 256 values lie on the floor
    found = half_life(decay_rate(values, OFFSET, floor=1e-3))
    assert found.value == pytest.approx(10)
    assert found.n == 100  # 2^-9.96 is the last value above 1e-3
    assert decay_rate(np.array([1.0, 0, 1]), np.arange(3.0)).value is None


@pytest.mark.parametrize(
    ("decay", "curve", "ratio"),
    [
        (0.02, {0: 1.8e-3, 8: 1.2e-3, 32: 6.8e-4, 64: 3.2e-4, 128: 6.6e-5, 256: 2.8e-6, 511: 5.1e-9}, 0.81),
        (0.02, {0: 0.99, 8: 0.82, 32: 0.42, 64: 0.20, 128: 0.04, 256: 1.7e-3, 511: 3.5e-6}, 0.81),
        (0.2, {0: 1.2e-3, 1: 9.5e-4, 8: 2.0e-4, 32: 3.9e-6, 64: 3.1e-9}, 1.0),
    ],
)
def test_measured_curves_halve_about_as_fast_as_the_decays_say(
    decay: float, curve: dict[int, float], ratio: float
) -> None:
    """Where decay is slow a little faster than it alone: the delta rule overwrites, too."""
    rate = decay_rate(np.array(list(curve.values())), np.array(list(curve), float))
    found = half_life(rate).value
    # Curves and ratios are given in two digits.
    assert found is not None and found / (math.log(2) / decay) == pytest.approx(ratio, abs=0.01)


def test_two_points_have_a_rate_and_a_constant_has_no_half_life() -> None:
    assert half_life(decay_rate(np.array([1.0, 0.5]), np.arange(2.0))).value == pytest.approx(1)
    flat = decay_rate(np.ones(5), np.arange(5.0))
    assert (flat.value, half_life(flat).value) == (0, None)


def test_too_many_points_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InternalError, match="average by offset"):
        decay_rate(np.ones(MOST_POINTS + 1), np.arange(MOST_POINTS + 1.0))
    monkeypatch.setattr("replaycheck.stats.half_life.MOST_POINTS", 9)
    assert decay_rate(np.ones(9), np.arange(9.0)).n == 9
