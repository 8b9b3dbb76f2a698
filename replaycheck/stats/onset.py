"""Where a difference begins: a cumulative sum of robust z scores against a control (docs/statistics.md, Where it begins).

Page 1954 (Biometrika 41): S ← max(0, S + z - drift); the onset is the token after S was last 0 before it crossed a
threshold. z is made with the control's median and MAD, so that single outliers of the control hide nothing, is cut at
±CUT, so that a single outlier of the trace is no onset, and is centred on the control's mean score, because |d| is skewed.
The threshold is the largest sum that block resamples of the control reach: textbook thresholds are for independent normal
scores. The drift that finds a small shift early places a large one too early, so the onset is placed a second time with
the drift that fits the shift found, half of it: that is its maximum likelihood estimate for normal scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import InternalError

from .reduction import Values

__all__ = ["Onset", "Place", "find_onset", "place"]

DRIFT = 0.5
"""Half the smallest shift to be found, in control spreads: the textbook choice for one spread (Page 1954)."""
CUT = 4.0
"""A score counts at most as much as this; the 4 sigma point leaves 6e-5 of normal scores alone."""
MAD_TO_SIGMA = 1.4826
"""1 / Φ⁻¹(3/4): the MAD of normal scores times this is their standard deviation."""
RESAMPLES = 400
"""A clean trace lies above the largest of so many with a chance of 1 in 401 if the control is long. Measured, with the
control's own error: 1 to 2 % with a control of eight traces' tokens, 5 to 8 % with one of a single trace's."""
BLOCK = 32
"""Tokens of the control that are resampled together: the correlation of an AR(1) of 0.9 is 0.03 by then. Longer blocks
leave too few different resamples of a short control (false onsets of 17 % instead of 5 % at 128 and 1,024 tokens)."""


@dataclass(frozen=True)
class Onset:
    """``position``: index of the first differing token; ``alarm``: where the sum crossed ``threshold``."""

    position: int
    alarm: int
    threshold: float
    score: float  # largest sum that was reached


@dataclass(frozen=True)
class Place:
    """Where a position lies on the grids that a fault could follow."""

    position: int
    boundary: int | None  # the nearest one; of two, the earlier
    distance: int | None  # position - boundary, negative before it
    residues: dict[str, int]  # position modulo chunk, page, interval


def find_onset(values: Values, control: Values, seed: int = 0) -> Onset | None:
    """First token of ``values`` [n] (|d| by position) that ``control`` [m] doesn't explain; None if there is none.

    A control without any spread (a deterministic path) makes the first value above all of the control the onset.
    """
    if not len(control) or not (np.isfinite(values).all() and np.isfinite(control).all()):
        raise InternalError("an onset needs a control with at least one position, and finite values only")
    middle = float(np.median(control))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(control - middle)))
    if spread == 0:
        return _first_above(values, float(control.max()))
    reference = _scores(control, middle, spread)
    scores = _scores(values, middle, spread) - reference.mean()
    threshold = _threshold(reference - reference.mean(), len(values), seed)
    path = _path(scores, DRIFT)
    crossed = np.flatnonzero(path > threshold)
    if not len(crossed):
        return None
    alarm = int(crossed[0])
    shift = float(scores[_start(path, alarm) : alarm + BLOCK].mean())
    position = _start(_path(scores, max(shift / 2, DRIFT)), alarm)
    return Onset(position, alarm, threshold, float(path.max()))


def place(position: int, boundaries: NDArray[np.int64], grids: Mapping[str, int], origin: int = 0) -> Place:
    """``position`` beside the nearest of ``boundaries`` [b], and modulo each of ``grids`` (name → tokens).

    ``origin`` is where grids count from: the start of the extend; absolute ones count from 0.
    """
    residues = {name: (position - origin) % size for name, size in grids.items()}
    if not len(boundaries):
        return Place(position, None, None, residues)
    ordered = np.sort(boundaries)
    nearest = int(ordered[np.argmin(np.abs(ordered - position))])
    return Place(position, nearest, position - nearest, residues)


def _first_above(values: Values, most: float) -> Onset | None:
    above = np.flatnonzero(values > most)
    return Onset(int(above[0]), int(above[0]), most, float(values.max())) if len(above) else None


def _scores(values: Values, middle: float, spread: float) -> Values:
    return np.clip((values - middle) / spread, -CUT, CUT)


def _path(scores: Values, drift: float) -> Values:
    """[..., n] sums S: the running total less its running minimum, which is the recursion of Page's test."""
    total = np.cumsum(scores - drift, axis=-1)
    return np.asarray(total - np.minimum(np.minimum.accumulate(total, axis=-1), 0), np.float64)


def _start(path: Values, alarm: int) -> int:
    """The token after the last sum of 0 before ``alarm``."""
    quiet = np.flatnonzero(path[:alarm] == 0)
    return int(quiet[-1]) + 1 if len(quiet) else 0


def _threshold(scores: Values, n: int, seed: int) -> float:
    """Largest sum of RESAMPLES circular block resamples of ``n`` tokens."""
    rng, block = np.random.default_rng(seed), min(BLOCK, len(scores))
    starts = rng.integers(0, len(scores), (RESAMPLES, -(-n // block)))
    at = (starts[:, :, None] + np.arange(block)) % len(scores)
    return float(_path(scores[at.reshape(RESAMPLES, -1)[:, :n]], DRIFT).max(initial=0.0))
