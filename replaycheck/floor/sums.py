"""What controls show, added up part by part from observations: memory for sums, however many traces there are.

A part holds whole traces. Each trace is one number first (its mean, its rms); the spill gives them back by cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.attribution import numbered
from replaycheck.compare.cell_sums import larger, largest, spilled_quantiles
from replaycheck.compare.columns import Names, floats, integers, names
from replaycheck.compare.spill import Spill
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.floor import Measure
from replaycheck.stats.clusters import ClusterMeans
from replaycheck.stats.intervals import mean_of, rate, upper_bound
from replaycheck.stats.reduction import PerTrace, trace_means, window_means

from .controls import Pairing

__all__ = ["COLUMNS", "FloorSums"]

COLUMNS = (
    "arm", "experiment", "trace", "branch", "turn", "position", "logprob", "top1", "margin", "logits_digest",
    "offset_from_restore", "cluster",
)  # fmt: skip
"""Columns of OBSERVATIONS that a floor is measured from."""

NAMED_TRACES = 256
"""Up to so many traces each has its spread written down; more would make result.json long and say no more."""

_MEANS = ("mean", "rms", "window", "state")
"""What the spill keeps a trace, in this order."""

Rows = NDArray[np.int64]
Wide = NDArray[np.float64]


@dataclass
class _Sums:
    traces: int = 0
    positions: int = 0
    bits_differ: int = 0
    not_finite: int = 0
    flips: int = 0
    flip_traces: int = 0
    flip_margin_max: float | None = None
    worst_mean: float | None = None
    spread_max: float | None = None
    state_max: float | None = None
    trace_spread: dict[str, float] = field(default_factory=dict)


class FloorSums:
    """Sums over the forced positions of each pairing.

    Args:
        spill: where numbers of positions and traces go; the numbers from ``first`` on are this object's.
        states: by pairing, the cells whose restores show what one cast of a state costs.
    """

    def __init__(
        self, pairings: Sequence[Pairing], spill: Spill, first: int = 0, states: Sequence[frozenset[str]] = ()
    ) -> None:
        self._pairings = tuple(pairings)
        self._sums = [_Sums() for _ in pairings]
        self._spill, self._first = spill, first
        self._states = states or [frozenset[str]()] * len(self._pairings)

    def add(self, observations: pa.Table, restores: pa.Table | None = None) -> None:
        """Rows of whole traces; of OBSERVATIONS the columns of COLUMNS, of RESTORES all."""
        if not self._pairings or not observations.num_rows:
            return
        part = _Part.of(observations)
        for index, pairing in enumerate(self._pairings):
            a, b = part.shared(pairing.reference.name, pairing.candidate.name)
            if len(a):
                self._add(index, part, a, b)
        if restores is not None and any(self._states):
            self._add_states(part, restores)

    def _number(self, index: int, of: str) -> int:
        """The number under which the spill keeps a pairing's trace means; that of its first also its differences."""
        return self._first + len(_MEANS) * index + _MEANS.index(of)

    def _add(self, index: int, part: _Part, a: Rows, b: Rows) -> None:
        mine, trace = self._sums[index], part.trace.code[a]
        size = np.abs(part.logprob[b] - part.logprob[a])
        finite = np.isfinite(size)
        flip = part.top1[a] != part.top1[b]
        mine.traces += len(np.unique(trace))
        mine.positions += len(a)
        mine.not_finite += int((~finite).sum())
        mine.bits_differ += int(part.differ(a, b).sum())
        mine.flips += int(flip.sum())
        mine.flip_traces += len(np.unique(trace[flip]))
        mine.flip_margin_max = larger(mine.flip_margin_max, largest(part.margin[a][flip]))
        size, trace, offset = size[finite], trace[finite], part.offset[b][finite]
        self._spill.add_values(self._number(index, "mean"), size)
        means, squares = trace_means(size, trace), trace_means(size**2, trace)
        rms = PerTrace(squares.trace, np.sqrt(squares.value))
        mine.worst_mean = larger(mine.worst_mean, largest(means.value))
        mine.spread_max = larger(mine.spread_max, largest(rms.value))
        if mine.traces <= NAMED_TRACES:
            mine.trace_spread |= {
                part.trace.of[code]: float(value) for code, value in zip(rms.trace, rms.value, strict=True)
            }
        self._keep(index, "mean", part, means)
        self._keep(index, "rms", part, rms)
        self._keep(index, "window", part, window_means(size, trace, offset))

    def _keep(self, index: int, of: str, part: _Part, found: PerTrace) -> None:
        number = self._number(index, of)
        self._spill.add_means(
            (number, part.cluster_of[code], part.trace.of[code], float(value))
            for code, value in zip(found.trace, found.value, strict=True)
        )

    def _add_states(self, part: _Part, restores: pa.Table) -> None:
        """What one cast of the live state costs, of the restores of a pairing's cells."""
        cell, trace, error = names(restores["cell"]), names(restores["trace"]), floats(restores["one_cast_error"])
        code_of = {name: code for code, name in enumerate(part.trace.of)}
        known = np.array([code_of.get(name, -1) for name in trace.of], np.int64)[trace.code]
        for index, cells in enumerate(self._states):
            wanted = [code for code, name in enumerate(cell.of) if name in cells]
            rows = np.isin(cell.code, wanted) & np.isfinite(error) & (known >= 0)
            if rows.any():
                self._sums[index].state_max = larger(self._sums[index].state_max, float(error[rows].max()))
                self._keep(index, "state", part, trace_means(error[rows], known[rows]))

    def finish(self) -> tuple[Measure, ...]:
        """One measure a pairing that saw a position."""
        means = _cluster_means(self._spill)
        return tuple(self._measure(index, means) for index, mine in enumerate(self._sums) if mine.positions)

    def _measure(self, index: int, means: dict[int, Wide]) -> Measure:
        pairing, mine = self._pairings[index], self._sums[index]
        mean, rms, window, state = (self._mean(means, index, of) for of in _MEANS)
        arm = pairing.candidate
        return Measure(
            control=pairing.control,
            reference=pairing.reference.name,
            candidate=arm.name,
            history=arm.history,
            tail=arm.tail,
            answers=arm.answers,
            pool=arm.pool,
            policy=arm.policy.slug,
            traces=mine.traces,
            positions=mine.positions,
            bits_differ=mine.bits_differ,
            bits_differ_bound=upper_bound(mine.bits_differ, mine.positions),
            not_finite=mine.not_finite,
            spread=rms,
            spread_max=mine.spread_max,
            mean_abs_dlogp=mean,
            worst_trace_abs_dlogp=Estimate(value=mine.worst_mean, n=mine.traces, method="largest of the trace means"),
            window_abs_dlogp=window,
            abs_dlogp=spilled_quantiles(self._spill, self._number(index, "mean")),
            flips=mine.flips,
            flip_margin_max=mine.flip_margin_max,
            flip_traces=Estimate.of(rate(mine.flip_traces, mine.traces)),
            state_rel_error=state if mine.state_max is not None else None,
            state_rel_error_max=mine.state_max,
            trace_spread=mine.trace_spread if mine.traces <= NAMED_TRACES else {},
        )

    def _mean(self, means: dict[int, Wide], index: int, of: str) -> Estimate:
        return Estimate.of(mean_of(means.get(self._number(index, of), np.empty(0))))


def _cluster_means(spill: Spill) -> dict[int, Wide]:
    """By the spill's number: one mean a cluster."""
    found: dict[int, ClusterMeans] = {}
    for number, cluster, mean in spill.means():
        found.setdefault(number, ClusterMeans()).add(cluster, mean)
    return {number: means.finish() for number, means in found.items()}


@dataclass(frozen=True)
class _Part:
    """OBSERVATIONS rows of the forced experiment as arrays [rows]. number: equal at equal positions."""

    trace: Names
    cluster_of: list[str]  # by the trace's code
    number: Rows
    rows_of: dict[str, Rows]  # by arm
    logprob: Wide
    top1: Wide
    margin: Wide
    digest: Rows  # -1: not shown
    offset: Rows  # -1: nothing was restored

    @classmethod
    def of(cls, table: pa.Table) -> _Part:
        experiment = names(table["experiment"])
        forced = experiment.code == experiment.named("forced")
        table = table if forced.all() else table.take(np.flatnonzero(forced))
        arm, trace, cluster = (names(table[name]) for name in ("arm", "trace", "cluster"))
        cluster_of = [""] * len(trace.of)
        for code, row in zip(*np.unique(trace.code, return_index=True), strict=True):
            cluster_of[code] = cluster.of[cluster.code[row]]
        shown = table["logits_digest"].is_valid().to_numpy(zero_copy_only=False)
        digest = names(table["logits_digest"].fill_null("")).code
        return cls(
            trace,
            cluster_of,
            numbered([trace.code, *(integers(table[name]) for name in ("branch", "turn", "position"))]),
            {name: np.flatnonzero(arm.code == code) for code, name in enumerate(arm.of)},
            floats(table["logprob"]),
            np.nan_to_num(floats(table["top1"]), nan=-1),
            floats(table["margin"]),
            np.where(shown, digest, -1),
            np.nan_to_num(floats(table["offset_from_restore"]), nan=-1).astype(np.int64),
        )

    def shared(self, a: str, b: str) -> tuple[Rows, Rows]:
        """The rows of two arms at the positions that both scored."""
        mine, other = (self.rows_of.get(name, np.empty(0, np.int64)) for name in (a, b))
        if np.array_equal(self.number[mine], self.number[other]):
            return mine, other
        _, left, right = np.intersect1d(self.number[mine], self.number[other], assume_unique=True, return_indices=True)
        return mine[left], other[right]

    def differ(self, a: Rows, b: Rows) -> NDArray[np.bool_]:
        """Positions that differ in bits: by the digests of logits, or where these aren't shown by what was said."""
        unseen = (self.digest[a] < 0) | (self.digest[b] < 0)
        said = (self.logprob[a] != self.logprob[b]) & np.isfinite(self.logprob[a]) & np.isfinite(self.logprob[b])
        return np.asarray(np.where(unseen, said, self.digest[a] != self.digest[b]), np.bool_)
