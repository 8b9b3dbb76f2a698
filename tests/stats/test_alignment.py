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
    restores = [np.array([64, 128]), np.array([100, 200]), np.array([0, 299, 300])]
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
    assert (found.restores, found.unused) == (4, 3)
    at_ten = [np.mean([values[0][74], values[0][138]]), values[1][210], values[2][10]]
    assert found.mean[10 - FIRST] == pytest.approx(np.mean(at_ten))
    assert found.traces[10 - FIRST] == 3
    assert found.traces[256 - FIRST] == 1
    assert found.offset[0], found.offset[-1] == (-32, 256)


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
    assert found.p == pytest.approx(0.001 + 999 * 31 / 2000 / 1000, abs=0.01)  # 32 positions have it in their window


def test_nothing_to_align() -> None:
    none = aligned_average([np.full(50, np.nan), np.array([])], [np.array([10]), np.array([], np.int64)])
    assert (none.contrast, none.p, none.restores, none.unused) == (None, None, 0, 1)
    assert np.isnan(none.mean).all()
    with pytest.raises(InternalError, match="each trace needs its own"):
        aligned_average([np.zeros(3)], [])
