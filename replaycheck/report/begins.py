"""Where the difference between cold and warm begins to be more than other cuts make: an onset a path, then one sentence.

Each path's |Δ log p| from its first restore on is held against that of all paths of cold against split, which makes the same
cuts and stores nothing (:func:`replaycheck.stats.onset.find_onset`). Noise raises a few paths, too, so an onset is told only
where more paths have one than noise would raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from replaycheck.stats.onset import Onset, Place, find_onset, place

from .text import number, plural

__all__ = ["Begins", "Key", "Path", "begins", "begins_said"]

Wide = NDArray[np.float64]
Key = tuple[str, int]  # trace, branch
Path = tuple[NDArray[np.int64], Wide, NDArray[np.int64]]  # positions, |Δ log p|, restores

TOKENS = 8192
"""Scored tokens of a path that are looked at: 400 resamples of so many take 26 MB."""
ALL_TOKENS = 1 << 17
"""Of all paths together: 400 resamples of so many take a second."""
LONG, RATES = 8, (0.02, 0.08)
"""Clean paths with an onset, measured: at most 2 % if the control is eight times as long as the path, else up to 8 %
(docs/statistics.md, Where it begins)."""
CHANCE = 0.05
"""Of telling an onset where noise alone raised as many paths."""
GRID = 64
"""Tokens of a chunk in every kernel of the lab: a fault of the grid begins at one residue of it."""


@dataclass(frozen=True)
class Begins:
    """Of ``paths`` that were looked at, ``risen`` have an onset, which lie at ``near`` tokens from a restore (median).

    ``where``: the clearest one; None where noise explains them all.
    """

    paths: int
    risen: int
    near: float | None = None
    where: tuple[Key, Place] | None = None


def begins(paths: Mapping[Key, Path], control: Mapping[Key, Path]) -> Begins | None:
    """``control``: cold against split on the same paths. None where it can't tell: it is empty, or without spread."""
    shared = {key: path for key, path in paths.items() if key in control and len(path[2])}
    others = [_after(control[key], path[2])[1] for key, path in shared.items()]
    noise = np.concatenate([*others, np.empty(0)])
    # With most positions at 0 the median and its deviation are 0, and any path with one larger value would rise.
    if not len(noise) or (noise.any() and not np.median(np.abs(noise - np.median(noise)))):
        return None
    looked = list(_looked(shared))
    found = {key: each for key, position, size in looked if (each := _onset(position, size, paths[key][2], noise))}
    longest = max((len(size) for *_, size in looked), default=0)
    rate = RATES[0] if len(noise) >= LONG * longest else RATES[1]
    # Without any noise each onset is one.
    if not found or (noise.any() and binom.sf(len(found) - 1, len(looked), rate) > CHANCE):
        return Begins(len(looked), len(found))
    near = float(np.median([abs(at.distance) for _, at in found.values() if at.distance is not None]))
    clearest = max(found, key=lambda key: found[key][0].score)
    return Begins(len(looked), len(found), near, (clearest, found[clearest][1]))


def _after(path: Path, restores: NDArray[np.int64]) -> tuple[NDArray[np.int64], Wide]:
    """Positions and finite sizes from the first restore on: before it both arms run the same code, and all is 0."""
    position, size, _ = path
    kept = np.flatnonzero((position >= restores.min()) & np.isfinite(size))[:TOKENS]
    return position[kept], size[kept]


def _looked(paths: Mapping[Key, Path]) -> Iterator[tuple[Key, NDArray[np.int64], Wide]]:
    """As many paths as there is time for, in the order of their names."""
    left = ALL_TOKENS
    for key in sorted(paths):
        position, size = _after(paths[key], paths[key][2])
        left -= len(size)
        if left < 0:
            return
        if len(size):
            yield key, position, size


def _onset(
    position: NDArray[np.int64], size: Wide, restores: NDArray[np.int64], noise: Wide
) -> tuple[Onset, Place] | None:
    found = find_onset(size, noise)
    return None if found is None else (found, place(int(position[found.position]), restores, {str(GRID): GRID}))


def begins_said(of: Begins) -> str:
    """``nowhere in 18 paths``, or in how many, how near to a restore, and the place of the clearest one."""
    if of.where is None:
        noise = f", {of.risen:,} of which rise, as noise makes them" if of.risen else ""
        return f"nowhere in {plural(of.paths, 'path')}{noise}"
    (trace, branch), at = of.where
    side = "after" if at.distance is not None and at.distance >= 0 else "before"
    distance = f"{plural(abs(at.distance or 0), 'token')} {side} the restore at {number(at.boundary)}"
    return (
        f"in {of.risen:,} of {plural(of.paths, 'path')}, half of them within {plural(round(of.near or 0), 'token')} of a "
        f"restore; clearest in trace {trace}, branch {branch}, at position {at.position:,} ({at.residues[str(GRID)]} modulo "
        f"{GRID}), {distance}"
    )
