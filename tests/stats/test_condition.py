"""Ill-conditioned or suspicious: a linear model whose conditions are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats.condition import DRAWS, Kind, classify, condition_of, p_explained

POSITIONS = 4000
ERROR = 2.0**-9


def measured(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """The condition from 8 draws of unlike sizes; dlogp is linear in the perturbation."""
    sizes = np.geomspace(1e-6, 1e-4, DRAWS)
    return condition_of(truth * rng.standard_normal((DRAWS, len(truth))) * sizes[:, None], sizes)


def test_eight_draws_know_the_condition_to_a_quarter() -> None:
    found = measured(np.random.default_rng(0), np.full(POSITIONS, 3.0))
    # The mean of 8 · 4,000 squares, whose root has a relative error of 1/√(2 · 8 · 4,000).
    assert np.sqrt(np.mean(found**2)) == pytest.approx(3, rel=3 / np.sqrt(2 * DRAWS * POSITIONS))
    spread = stats.chi(DRAWS).std() / np.sqrt(DRAWS)
    assert spread == pytest.approx(0.25, abs=0.005)  # a quarter, in two digits
    assert found.std() / 3 == pytest.approx(spread, rel=3 / np.sqrt(2 * POSITIONS))


def test_one_draw_is_a_ratio() -> None:
    assert condition_of(np.array([[-2e-6, 0.0]]), np.array([1e-6])).tolist() == [2, 0]
    assert condition_of(np.array([[3.0], [4.0]]), np.array([[1.0], [1.0]]))[0] == pytest.approx(np.sqrt(12.5))


def test_p_is_uniform_where_the_state_explains_the_difference() -> None:
    rng = np.random.default_rng(1)
    truth = rng.lognormal(0, 2, POSITIONS)
    p = p_explained(truth * ERROR * rng.standard_normal(POSITIONS), measured(rng, truth), ERROR)
    for level in (0.001, 0.05, 0.5):
        assert np.mean(p < level) == pytest.approx(level, abs=3 * np.sqrt(level / POSITIONS))


def test_ill_conditioned_tokens_are_told_from_suspicious_ones() -> None:
    rng = np.random.default_rng(2)
    truth = np.where(np.arange(POSITIONS) % 50 == 0, 100.0, 0.5)
    d = truth * ERROR * rng.standard_normal(POSITIONS)
    d[1::1000] = 0.3  # four well-conditioned tokens with a difference that no error of the state explains
    kinds = classify(d, measured(rng, truth), ERROR, large=0.02)
    assert (kinds[1::1000] == Kind.SUSPICIOUS).all()
    assert (kinds == Kind.SUSPICIOUS).sum() == 4
    assert (kinds == Kind.ILL_CONDITIONED).sum() == (np.abs(d) > 0.02).sum() - 4 > 50
    assert (kinds[np.abs(d) <= 0.02] == Kind.SMALL).all()


def test_a_run_without_fault_is_rarely_suspected() -> None:
    """5 % of runs, whatever the number of large differences."""
    rng, suspected = np.random.default_rng(3), []
    for _ in range(200):
        truth = rng.lognormal(0, 1, 200)
        kinds = classify(truth * ERROR * rng.standard_normal(200), measured(rng, truth), ERROR, large=0.0)
        suspected.append((kinds == Kind.SUSPICIOUS).any())
    assert np.mean(suspected) <= 0.05 + 3 * 0.0154


def test_where_the_state_does_not_matter_any_difference_is_suspicious() -> None:
    assert p_explained(np.array([0.0, 1e-9]), np.zeros(2), ERROR).tolist() == [1, 0]
    assert classify(np.array([0.0, 1.0]), np.zeros(2), ERROR, large=0.5).tolist() == [Kind.SMALL, Kind.SUSPICIOUS]


def test_as_large_as_the_floor_is_small_and_one_large_difference_is_tested_at_the_full_level() -> None:
    p_is_4_percent = stats.t.isf(0.02, DRAWS) * ERROR
    d = np.array([0.5 * ERROR, p_is_4_percent])
    assert classify(d, np.ones(2), ERROR, large=0.5 * ERROR).tolist() == [Kind.SMALL, Kind.SUSPICIOUS]
    assert classify(np.append(d, p_is_4_percent), np.ones(3), ERROR, large=0.5 * ERROR)[1] == Kind.ILL_CONDITIONED


@pytest.mark.parametrize("size", [np.ones(3), np.zeros(2), -np.ones(2)])
def test_draws_without_a_size_are_refused(size: np.ndarray) -> None:
    with pytest.raises(InternalError, match="positive size"):
        condition_of(np.ones((2, 5)), size)
