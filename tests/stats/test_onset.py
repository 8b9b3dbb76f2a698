"""Where a difference begins: planted onsets, clean traces, and where a position lies on the grids."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from replaycheck.errors import InternalError
from replaycheck.stats.onset import MAD_TO_SIGMA, Onset, find_onset, place
from replaycheck.stats.onset import _path as path


def size(rng: np.random.Generator, n: int, rho: float = 0.0) -> np.ndarray:
    """|d| of AR(1) noise of spread 1."""
    noise = lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.standard_normal(n + 200))
    return np.abs(noise[200:])


def positions(shift: float, rho: float, times: int, control: int = 8192) -> list[int]:
    rng, found = np.random.default_rng(1), []
    for seed in range(times):
        reference, values = size(rng, control, rho), size(rng, 1024, rho)
        values[512:] += shift
        onset = find_onset(values, reference, seed)
        found += [] if onset is None else [onset.position]
    return found


def test_the_sums_are_pages_recursion() -> None:
    scores, total, expected = np.random.default_rng(0).normal(size=200), 0.0, []
    for score in scores:
        total = max(0.0, total + score - 0.5)
        expected.append(total)
    # A difference of two running sums of up to 100, of 200 roundings each.
    assert path(scores, 0.5) == pytest.approx(expected, abs=2 * 200 * 100 * 2.0**-53)


def test_a_sum_begins_with_the_first_score() -> None:
    assert path(np.array([2.0, 2.0, -9.0, 1.0]), 0.5).tolist() == [1.5, 3.0, 0.0, 0.5]


QUIET = np.repeat([-1.0, 0.0, 1.0], [10, 41, 49])
"""Scores of -0.67, 0 and 0.67 with a mean of 0.26: centred, none exceeds the drift, so no sum ever leaves 0."""


def test_a_control_that_never_leaves_0_has_the_threshold_0_and_a_trace_like_it_no_onset() -> None:
    assert find_onset(QUIET, QUIET) is None
    found = find_onset(np.where(np.arange(40) < 7, 0.0, 9.0), QUIET)
    assert found is not None
    assert (found.position, found.alarm, found.threshold) == (7, 7, 0)


def test_a_score_counts_at_most_4_spreads() -> None:
    found = find_onset(np.where(np.arange(40) == 7, 1e6, 0.0), QUIET)
    assert found is not None
    assert found.score == pytest.approx(4 - 0.39 / 1.4826 - 0.5)


def test_the_mad_of_normal_scores_is_turned_into_their_deviation() -> None:
    assert pytest.approx(1 / norm.ppf(0.75), rel=1e-4) == MAD_TO_SIGMA


def test_the_onset_is_placed_with_half_the_shift() -> None:
    """Three tokens of a score of 1.2 before a shift of 3: the drift of 0.5 would begin with them, one of 1.4 doesn't."""
    control = np.random.default_rng(5).normal(size=4096)
    spread = 1.4826 * np.median(np.abs(control - np.median(control)))
    values = np.full(200, np.median(control))
    values[97:100] += 1.2 * spread
    values[100:] += 3 * spread
    found = find_onset(values, control)
    assert found is not None
    assert found.position == 100


def test_an_onset_at_512_is_found_there() -> None:
    """Exactly at 512: 92 of 100 of a shift of four spreads, and nearly always within three."""
    found = np.array(positions(shift=4, rho=0, times=60))
    assert len(found) == 60
    assert np.mean(found == 512) >= 0.8
    assert np.mean(np.abs(found - 512) <= 3) >= 0.95


def test_a_small_shift_in_correlated_noise_is_found_near_its_place() -> None:
    found = np.array(positions(shift=1, rho=0.9, times=30))
    assert len(found) >= 28
    assert abs(np.median(found) - 512) <= 8


def test_clean_traces_rarely_have_an_onset() -> None:
    """Measured over 300: 1 % independent, 1.7 % at a correlation of 0.9; three standard deviations of 60 are 5 %."""
    assert len(positions(shift=0, rho=0, times=60)) <= 3
    assert len(positions(shift=0, rho=0.9, times=60)) <= 4


def test_a_single_outlier_is_no_onset() -> None:
    rng = np.random.default_rng(3)
    control, values = size(rng, 8192), size(rng, 1024)
    values[300] = 1e6
    assert find_onset(values, control) is None


def test_a_control_without_spread_makes_the_first_difference_the_onset() -> None:
    values = np.array([0, 0, 0, 1e-9, 0, 5.0])
    found = find_onset(values, np.zeros(10))
    assert found == Onset(position=3, alarm=3, threshold=0, score=5)
    assert find_onset(np.zeros(6), np.zeros(10)) is None


def test_an_onset_at_the_first_token() -> None:
    rng = np.random.default_rng(4)
    found = find_onset(size(rng, 256) + 5, size(rng, 4096))
    assert found is not None
    assert found.position == 0


def test_a_control_is_needed() -> None:
    for control in (np.array([]), np.array([1.0, np.nan])):
        with pytest.raises(InternalError, match="control with at least one position"):
            find_onset(np.zeros(3), control)


def test_a_place_has_its_nearest_boundary_and_residues() -> None:
    found = place(515, np.array([1024, 512, 0]), {"chunk": 64, "page": 16, "interval": 256})
    assert (found.boundary, found.distance) == (512, 3)
    assert found.residues == {"chunk": 3, "page": 3, "interval": 3}
    assert place(768, np.array([512, 1024]), {}).boundary == 512  # as near as 1024: the earlier
    assert place(500, np.array([512]), {"chunk": 64}, origin=12).residues == {"chunk": 40}
    assert place(500, np.array([512]), {}).distance == -12
    assert place(5, np.array([], np.int64), {}).distance is None
