"""Metrics on differences of log-probabilities: the worst trace, the tail, the window after a restore, flips.

Never a mean alone: 64 bad tokens of 0.3 nat among 16,384 add 1.6e-4 to it (docs/statistics.md). Values are in nat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import isnan

import numpy as np
from numpy.typing import NDArray
from scipy.stats import quantile_test

from replaycheck.schema.floor import FloorKind, Measure
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import CellResult, Estimate
from replaycheck.stats.bootstrap import pooled_quantile
from replaycheck.stats.flips import SPREADS, count_flips
from replaycheck.stats.intervals import CONFIDENCE, proportion
from replaycheck.stats.reduction import WINDOW
from replaycheck.stats.selection import rank_of

from .bounds import Bound, bound_in, floor_of, missing, told
from .evidence import Evidence
from .measured import CellNumber, Measured, worst_cell
from .scoped import fewest_traces, why_vacuous
from .sums import CellTraces, cell_values
from .unsized import unsized_words

__all__ = ["LEVEL", "flips_above_margin", "tail_quantile", "window_after_restore", "worst_trace"]

LEVEL = 0.999
"""The tail that result.json reports, too: one position in a thousand lies above, a chunk of 64 in 64,000 tokens."""

TRACES = 0.95
"""The interval beside a largest trace is one of this quantile over traces: a maximum of n has none of its own."""

Wide = NDArray[np.float64]


def worst_trace(evidence: Evidence, gate: Gate) -> Measured:
    """Largest over traces of a trace's mean |Δ log p|."""

    def floor(measure: Measure) -> float | None:
        return measure.worst_trace_abs_dlogp.value

    return _worst_of_traces(evidence, gate, lambda cell: cell.mean, floor, "mean |Δ log p|")


def window_after_restore(evidence: Evidence, gate: Gate) -> Measured:
    """The same over the positions under WINDOW tokens after a restore, where a wrong state shows first and most."""

    def floor(measure: Measure) -> float | None:
        return measure.window_abs_dlogp.value

    what = f"mean |Δ log p| under {WINDOW} tokens after a restore"
    return _worst_of_traces(evidence, gate, lambda cell: cell.window, floor, what)


def _worst_of_traces(
    evidence: Evidence,
    gate: Gate,
    of: Callable[[CellTraces], Wide],
    floor: Callable[[Measure], float | None],
    what: str,
) -> Measured:
    def numbers() -> Iterator[CellNumber]:
        for cell, traces in _cells(evidence, gate):
            values = of(traces)
            seen = np.flatnonzero(~np.isnan(values))
            if len(seen):
                worst = int(seen[np.argmax(values[seen])])
                yield CellNumber(
                    float(values[worst]),
                    f"{cell.name}, trace {traces.traces[worst]}",
                    len(seen),
                    bound_in(evidence, gate, cell, floor, what),
                    partial(_largest, values[seen], traces.cluster[seen]),
                    f"the largest {what} of {len(seen):,} traces is {values[worst]:.3g} nat",
                )

    return _measure(evidence, gate, numbers())


def _largest(values: Wide, cluster: NDArray[np.int64]) -> Estimate:
    """The maximum; its interval is that of a high quantile over clusters, by order statistics, whatever the distribution."""
    clusters = np.full(int(cluster.max()) + 1, -np.inf)
    np.maximum.at(clusters, cluster, values)
    worst = clusters[np.isfinite(clusters)]
    low, high = quantile_test(worst, p=TRACES).confidence_interval(CONFIDENCE)
    return Estimate(
        value=float(worst.max()),
        n=len(worst),
        method=f"largest of the traces; interval: of their {TRACES:.0%} quantile, order statistics, {CONFIDENCE:.0%}",
        low=None if isnan(low) else float(low),
        high=None if isnan(high) else float(high),
    )


def tail_quantile(evidence: Evidence, gate: Gate) -> Measured:
    """99.9 % quantile of |Δ log p| over positions; of under 1,000 positions that is their maximum."""

    def numbers() -> Iterator[CellNumber]:
        for cell, traces in _cells(evidence, gate):
            value = _quantile(evidence, gate, cell, traces)
            yield CellNumber(
                value,
                cell.name,
                len(traces.traces),
                bound_in(evidence, gate, cell, lambda measure: measure.abs_dlogp.get("p999"), "99.9 % quantile"),
                partial(_tail, evidence, gate, cell.name),
                f"the 99.9 % quantile of |Δ log p| over {traces.positions.sum():,} positions is {value:.3g} nat",
            )

    return _measure(evidence, gate, numbers(), high_decides=True)


def _quantile(evidence: Evidence, gate: Gate, cell: CellResult, traces: CellTraces) -> float:
    """As the run's summary has it; positions without a finite difference, which that leaves out, are the largest."""
    seen = int(traces.positions.sum())
    forced = gate.scope.experiment in (None, "forced")
    if forced and not cell.not_finite and "p999" in cell.abs_dlogp:
        return cell.abs_dlogp["p999"]
    values = np.sort(cell_values(evidence.tables, cell.name, gate.scope.experiment or "forced")[0])
    return float(values[rank_of(LEVEL, seen)])


def _tail(evidence: Evidence, gate: Gate, cell: str) -> Estimate:
    """With its interval, for which the positions of one cell are read again."""
    values, clusters = cell_values(evidence.tables, cell, gate.scope.experiment or "forced")
    code = {name: at for at, name in enumerate(dict.fromkeys(clusters))}
    return Estimate.of(pooled_quantile(values, np.array([code[name] for name in clusters], np.int64), LEVEL))


def flips_above_margin(evidence: Evidence, gate: Gate) -> Measured:
    """Positions with another top-1 token though the reference's margin was over k times the floor's spread (F_num).

    The spread is that of the floor's noisiest trace: noise isn't the same in all of them. Ties are no flips.
    """
    numbers = (_flips(evidence, gate, cell, traces) for cell, traces in _cells(evidence, gate))
    return _measure(evidence, gate, numbers)


def _flips(evidence: Evidence, gate: Gate, cell: CellResult, traces: CellTraces) -> CellNumber:
    k, n = SPREADS if gate.k is None else gate.k, int(traces.positions.sum())
    measure = floor_of(evidence, FloorKind.NUM, cell)
    spread = None if measure is None else measure.spread_max
    found = count_flips(traces.flip_margin, np.ones(len(traces.flip_margin), np.bool_), spread or 0.0, k)
    words = f"{found.above} of {found.flips} flips cross a margin above {found.bound:.3g} nat; the largest crosses "
    words += "none" if found.largest_margin is None else f"{found.largest_margin:.3g}"
    bound = missing(FloorKind.NUM, cell)
    if measure is not None and spread is not None:
        counts = f"flips count above a margin of {k:g} × {spread:.3g} nat, the spread of the noisiest trace"
        bound = Bound(gate.bound, f"the constant {gate.bound:g}; {counts} of F_num ({told(measure)})", measure.traces)
    low, high = proportion(found.above, n)
    method = f"count, exact binomial over positions, {CONFIDENCE:.0%}"
    estimate = Estimate(value=found.above, n=n, method=method, low=low * n, high=high * n)
    return CellNumber(found.above, cell.name, len(traces.traces), bound, lambda: estimate, words)


def _cells(evidence: Evidence, gate: Gate) -> Iterator[tuple[CellResult, CellTraces]]:
    sums = evidence.sums(gate.scope)
    for cell in evidence.cells_in(gate.scope):
        if cell.name in sums:
            yield cell, sums[cell.name]


def _measure(evidence: Evidence, gate: Gate, numbers: Iterator[CellNumber], high_decides: bool = False) -> Measured:
    cells = evidence.cells_in(gate.scope)
    found = worst_cell(numbers, fewest_traces(cells), why_vacuous(cells), high_decides)
    words = unsized_words(cells)
    if found.estimate.n or why_vacuous(cells) or not words:
        return found
    return replace(found, words=words, vacuous="", decided="inconclusive")
