"""Averages round restores: against a loop, with the size that noise has and the power that a fault has."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from replaycheck.errors import InternalError
from replaycheck.stats.alignment import AFTER, BEFORE, FIRST, Aligned, aligned_average


def traces(rng: np.random.Generator, count: int = 12, n: int = 1200) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """|d| of AR(1) noise whose spread differs by trace, and restores each 256 tokens from 256 on."""
    noise = lfilter([np.sqrt(0.19)], [1, -0.9], rng.standard_normal((count, n + 100)), axis=1)[:, 100:]
    values = np.abs(noise) * rng.lognormal(0, 0.5, (count, 1))
    return list(values), [np.arange(256, n, 256)] * count


def test_curve_and_contrast_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, _ = traces(rng, 3, 300)
    values[1][40:120] = np.nan
    restores = [np.array([20, 64, 128]), np.array([100, 130, 200]), np.array([0, 299, 300])]
    found = aligned_average(values, restores, draws=9)

    def mean(each: np.ndarray, low: int, high: int) -> float:
        part = each[max(low, 0) : high]
        return float(np.nanmean(part)) if np.isfinite(part).any() else np.nan

    by_trace = []
    for each, at in zip(values, restores, strict=True):
        contrasts = [mean(each, r, r + AFTER) - mean(each, r - BEFORE, r) for r in at if r < len(each)]
        by_trace += [np.nanmean(contrasts)] if np.isfinite(contrasts).any() else []
    assert found.contrast == pytest.approx(np.mean(by_trace))
    # Restore 0 has nothing in front, 300 lies behind the end, 100 of the second trace has unscored tokens on both sides.
    assert (found.restores, found.unused) == (6, 3)
    at_ten = [np.mean(values[0][[30, 74, 138]]), np.mean(values[1][[140, 210]]), values[2][10]]
    assert found.mean[10 - FIRST] == pytest.approx(np.mean(at_ten))
    assert found.traces[10 - FIRST] == 3
    assert found.traces[256 - FIRST] == 2
    assert (found.offset[0], found.offset[-1]) == (-32, 256)


def test_the_curve_holds_every_token_of_a_trace_and_nothing_beyond_its_ends() -> None:
    """The second trace is shorter and has no say where it has no token."""
    long, short = np.arange(1.0, 101), np.arange(1.0, 41)
    found = aligned_average([long, short], [np.array([20]), np.array([20])], draws=9)
    assert len(found.mean) == len(found.traces) == len(found.offset)
    expected = np.where((found.offset >= -20) & (found.offset < 80), 21.0 + found.offset, np.nan)
    assert np.array_equal(found.mean, expected, equal_nan=True)
    assert found.traces.tolist() == [0] * 12 + [2] * 40 + [1] * 60 + [0] * 177


def test_the_contrast_is_of_32_tokens_on_each_side() -> None:
    values = np.zeros(200)
    values[[68, 131]] = 32.0, 96.0
    values[[67, 132]] = 1e6  # the next on either side
    assert aligned_average([values], [np.array([100])], draws=9).contrast == pytest.approx((96 - 32) / 32)


def planted(rng: np.random.Generator, share: float) -> Aligned:
    """A share of a trace's spread is added after each restore and dies with a half-life of 16 tokens."""
    values, restores = traces(rng)
    for each, at in zip(values, restores, strict=True):
        for start in at:
            window = np.arange(min(64, len(each) - start))
            each[start + window] += share * each.std() * 0.5 ** (window / 16)
    return aligned_average(values, restores, draws=199)


def test_noise_has_the_size_that_p_says() -> None:
    p = np.array([planted(np.random.default_rng(seed), 0.0).p for seed in range(150)])
    assert np.mean(p <= 0.05) <= 0.05 + 3 * 0.018
    assert 0.38 <= np.mean(p) <= 0.62  # uniform: a half, and three standard errors of .024 and a bit


def test_a_fault_after_each_restore_is_found() -> None:
    found = [planted(np.random.default_rng(seed), 1.0) for seed in range(20)]
    assert np.mean([each.p is not None and each.p <= 0.05 for each in found]) >= 0.9
    assert found[0].mean[-FIRST : -FIRST + 8].mean() > 1.3 * found[0].mean[:-FIRST].mean()


def test_a_trend_along_the_trace_is_no_fault() -> None:
    rng = np.random.default_rng(2)
    values, restores = traces(rng)
    p = aligned_average([each + np.arange(len(each)) / 300 for each in values], restores).p
    assert p is not None and p > 0.05


def test_the_smallest_p_is_one_in_a_thousand() -> None:
    values = [np.where(np.arange(2000) == 1000, 1e3, 0.0)]
    found = aligned_average(values, [np.array([1000])], draws=999)
    # 32 positions have it in their window. A count of 999 draws with that chance has a standard deviation of .004.
    assert found.p == pytest.approx(0.001 + 999 * 31 / 2000 / 1000, abs=3 * 0.004)


def test_a_contrast_that_no_draw_reaches_has_the_smallest_p() -> None:
    values = [np.where(np.arange(2000) == 1000, 1e3, 0.0)] * 8
    assert aligned_average(values, [np.array([1000])] * 8).p == 0.001


def test_where_no_other_position_could_be_drawn_p_is_1() -> None:
    found = aligned_average([np.array([0.0, 1.0])], [np.array([1])])
    assert (found.contrast, found.restores, found.p) == (1, 1, 1)


def test_nothing_to_align() -> None:
    none = aligned_average([np.full(50, np.nan), np.array([])], [np.array([10]), np.array([], np.int64)])
    assert (none.contrast, none.p, none.restores, none.unused) == (None, None, 0, 1)
    assert np.isnan(none.mean).all()
    with pytest.raises(InternalError, match="each trace needs its own"):
        aligned_average([np.zeros(3)], [])
