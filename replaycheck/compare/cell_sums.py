"""Numbers of each cell, added up part by part: what PAIRS rows say about positions, traces and restores.

A part holds whole traces, so whatever is counted or averaged a trace is finished with its part. Sums are of integers and
extremes, which no order changes; the mean over clusters and the quantiles are taken from the spill at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.schema.gaps import Where
from replaycheck.schema.result import Estimate
from replaycheck.stats.clusters import ClusterMeans
from replaycheck.stats.intervals import cluster_t
from replaycheck.stats.quantiles import LEVELS
from replaycheck.stats.selection import rank_of, select

from .columns import Names, flags, floats, integers, names, starts, unsaid
from .spill import Spill

__all__ = ["NOT_SEEN", "CellSums", "larger", "largest", "spilled_quantiles"]

NOT_SEEN = Estimate(value=None, n=0, method="not seen")

Mask = NDArray[np.bool_]
Wide = NDArray[np.float64]


@dataclass
class _Cell:
    """Counts of one cell; a mean or extreme is None as long as nothing was seen."""

    traces: int = 0
    positions: int = 0
    restores: int = 0
    bits_differ: int = 0
    not_finite: int = 0
    missing: int = 0
    unsized: int = 0
    unsized_flips: int = 0
    first_unsized_flip: Where | None = None
    flips: int = 0
    kl_max: float | None = None
    flip_margin_max: float | None = None
    worst_mean: float | None = None
    means: int = 0


class CellSums:
    """Sums over the forced positions of the cells ``names``, which a summary is about."""

    def __init__(self, names: Sequence[str], spill: Spill) -> None:
        self._number = {name: index for index, name in enumerate(names)}
        self._cells = [_Cell() for _ in names]
        self._spill = spill

    def add(self, pairs: pa.Table, part: str) -> None:
        """Rows of whole traces, in the order of their key."""
        traces = names(pairs["trace"])
        self._spill.add_traces(traces.of, part)
        experiment, cell = names(pairs["experiment"]), names(pairs["cell"])
        forced = experiment.code == experiment.named("forced")
        known = np.array([name in self._number for name in cell.of], np.bool_)
        rows = np.flatnonzero(forced & known[cell.code]) if len(cell.code) else np.empty(0, np.int64)
        if len(rows):
            self._add(pairs if len(rows) == len(pairs) else pairs.take(rows))

    def _add(self, pairs: pa.Table) -> None:
        part = _Part.of(pairs)
        for code, name in enumerate(part.cell.of):
            at = part.slice_of(code)
            if at.start < at.stop:
                self._spill.add_values(self._number[name], part.size[at][part.finite[at]])
                self._count(self._cells[self._number[name]], part, at)
        for name, trace_means in part.means(part.size, part.finite):
            mine = self._cells[self._number[name]]
            mine.means += len(trace_means)
            mine.worst_mean = larger(mine.worst_mean, float(trace_means.max()))
        clusters = part.clusters()
        for name, found in part.means(part.kl, np.isfinite(part.kl)):
            number = self._number[name]
            self._spill.add_means((number, clusters[at], part.trace.of[at], float(mean)) for at, mean in found.items())

    @staticmethod
    def _count(mine: _Cell, part: _Part, at: slice) -> None:
        flip, restored = part.flip[at], part.restored[at]
        keys = part.trace.code[at], part.branch[at], part.turn[at]
        mine.traces += len(np.unique(keys[0]))
        mine.positions += at.stop - at.start
        mine.restores += len(starts(*(key[restored] for key in keys)))
        mine.bits_differ += int((~part.bits_equal[at]).sum())
        mine.not_finite += int((~part.finite[at] & ~part.unsaid[at]).sum())
        mine.missing += int(part.unsaid[at].sum())
        mine.unsized += int((part.unsaid[at] & part.chosen[at]).sum())
        unsized_flip = part.unsaid[at] & flip
        mine.unsized_flips += int(unsized_flip.sum())
        mine.first_unsized_flip = mine.first_unsized_flip or part.where(at, unsized_flip)
        mine.flips += int(flip.sum())
        mine.kl_max = larger(mine.kl_max, largest(part.kl[at]))
        mine.flip_margin_max = larger(mine.flip_margin_max, largest(part.margin[at][flip]))

    def numbers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The fields of a CellResult that positions decide, by cell, in the order of the cells."""
        kl = _kl_means(self._spill)
        for name, number in self._number.items():
            mine = self._cells[number]
            yield (
                name,
                {
                    "traces": mine.traces,
                    "positions": mine.positions,
                    "restores": mine.restores,
                    "bits_differ": mine.bits_differ,
                    "not_finite": mine.not_finite,
                    "missing": mine.missing,
                    "unsized": mine.unsized,
                    "unsized_flips": mine.unsized_flips,
                    "first_unsized_flip": mine.first_unsized_flip,
                    "abs_dlogp": spilled_quantiles(self._spill, number),
                    "worst_trace_abs_dlogp": _worst(mine),
                    "kl_mean": kl.get(number, NOT_SEEN),
                    "kl_max": mine.kl_max,
                    "flips": mine.flips,
                    "flip_margin_max": mine.flip_margin_max,
                },
            )


@dataclass(frozen=True)
class _Part:
    """PAIRS rows as arrays [rows]; ``size`` is |dlogp|."""

    cell: Names
    trace: Names
    cluster: Names
    branch: NDArray[np.int64]
    turn: NDArray[np.int64]
    position: NDArray[np.int64]
    size: Wide
    kl: Wide
    margin: Wide
    finite: Mask
    unsaid: Mask
    flip: Mask
    chosen: Mask  # both arms said their most likely token
    bits_equal: Mask
    restored: Mask

    @classmethod
    def of(cls, pairs: pa.Table) -> _Part:
        size = np.abs(floats(pairs["dlogp"]))
        return cls(
            names(pairs["cell"]),
            names(pairs["trace"]),
            names(pairs["cluster"]),
            integers(pairs["branch"]),
            integers(pairs["turn"]),
            integers(pairs["position"]),
            size,
            floats(pairs["kl"]),
            floats(pairs["margin"]),
            np.isfinite(size),
            unsaid(pairs),
            flags(pairs["flip"]),
            flags(pairs["flip"].is_valid()),
            flags(pairs["bits_equal"], unseen=True),
            flags(pairs["offset_from_restore"].is_valid()),
        )

    def slice_of(self, cell: int) -> slice:
        """The rows of a cell, which lie together."""
        mine = np.flatnonzero(self.cell.code == cell)
        return slice(int(mine[0]), int(mine[-1]) + 1) if len(mine) else slice(0, 0)

    def where(self, rows: slice, mask: Mask) -> Where | None:
        """The first of ``rows`` at which the mask is set."""
        if not mask.any():
            return None
        at = rows.start + int(mask.argmax())
        branch, turn, position = (int(column[at]) for column in (self.branch, self.turn, self.position))
        return Where(trace=self.trace.of[self.trace.code[at]], branch=branch, turn=turn, position=position)

    def means(self, values: Wide, kept: Mask) -> Iterator[tuple[str, pd.Series]]:
        """Of each cell with a kept value, the mean of each trace, by the trace's code.

        Each is summed in the order of its own rows, so nothing else in the part can change its last bit.
        """
        key = self.cell.code * len(self.trace.of) + self.trace.code
        found = pd.Series(values[kept]).groupby(key[kept]).mean()
        for cell, mine in found.groupby(found.index // len(self.trace.of)):
            yield self.cell.of[cell], mine.set_axis(mine.index % len(self.trace.of))

    def clusters(self) -> list[str]:
        """The cluster of each trace, by the trace's code."""
        code = np.zeros(len(self.trace.of), np.int64)
        code[self.trace.code] = self.cluster.code
        return [self.cluster.of[each] for each in code]


def spilled_quantiles(spill: Spill, number: int) -> dict[str, float]:
    """Of the spilled values of that number, by the names of LEVELS; nothing without any."""
    n = spill.count(number)
    if not n:
        return {}
    ranks = {name: rank_of(level, n) for name, level in LEVELS.items()}
    found = select(lambda: spill.values(number), ranks.values())
    return {name: found[rank] for name, rank in ranks.items()}


def largest(values: Wide) -> float | None:
    """The largest finite value of [n]; None without one."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else None


def larger(a: float | None, b: float | None) -> float | None:
    """The larger of two numbers, of which either may not be there."""
    return b if a is None else a if b is None else max(a, b)


def _worst(mine: _Cell) -> Estimate:
    if mine.worst_mean is None:
        return NOT_SEEN
    return Estimate(value=mine.worst_mean, n=mine.means, method="largest of the trace means")


def _kl_means(spill: Spill) -> dict[int, Estimate]:
    """By cell: one number a trace, then one a cluster, then their mean."""
    found: dict[int, ClusterMeans] = {}
    for cell, cluster, mean in spill.means():
        found.setdefault(cell, ClusterMeans()).add(cluster, mean)
    return {cell: _estimate(means.finish()) for cell, means in found.items()}


def _estimate(means: Wide) -> Estimate:
    low, high = cluster_t(means) or (None, None)
    return Estimate(value=float(means.mean()), n=len(means), method="cluster-t, 95 %", low=low, high=high)
