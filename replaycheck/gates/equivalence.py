"""The operator's question: is switching the cache on the same enough? TOST of the ratio to F_num (docs/statistics.md).

A trace's number is the root mean square of its Δ log p; F_num's is the same of the control. The margin is the gate's factor,
fixed before looking. A p value above 0.05 in a test of difference would be no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replaycheck.schema.floor import FloorKind, Measure
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import CellResult, Estimate
from replaycheck.stats.clusters import ClusterMeans
from replaycheck.stats.equivalence import Equivalence, tost_ratio
from replaycheck.stats.power import no_worse_power, traces_for_no_worse

from .bounds import NAMES, Bound, floor_of, missing, told
from .evidence import Evidence
from .measured import Measured, counted, nothing
from .scoped import fewest_traces, why_vacuous
from .sums import CellTraces

__all__ = ["paired", "ratio_to_floor"]

Wide = NDArray[np.float64]

_WEIGHT = {"fail": 2, "inconclusive": 1, "pass": 0}


def ratio_to_floor(evidence: Evidence, gate: Gate) -> Measured:
    """Mean spread of a cell over the mean spread of its floor, paired by trace; the worst cell by verdict, then by ratio."""
    cells = evidence.cells_in(gate.scope)
    found = list(_each(evidence, gate))
    if not found:
        return nothing(why_vacuous(cells) or "no position was compared", fewest_traces(cells))
    worst = max(found, key=lambda each: (_WEIGHT[each.decided or "inconclusive"], each.estimate.value or 0.0))
    return replace(worst, vacuous=why_vacuous(cells), traces=min(each.traces or 0 for each in found))


def _each(evidence: Evidence, gate: Gate) -> Iterator[Measured]:
    assert gate.floor is not None and gate.factor is not None
    for cell in evidence.cells_in(gate.scope):
        traces = evidence.sums(gate.scope).get(cell.name)
        if traces is not None:
            measure = floor_of(evidence, gate.floor, cell)
            yield _missing(gate.floor, cell, traces) if measure is None else _cell(gate, cell, traces, measure)


def _missing(kind: FloorKind, cell: CellResult, traces: CellTraces) -> Measured:
    value = Estimate(value=None, n=len(traces.traces), method=f"ratio to {NAMES[kind]}, which wasn't measured")
    return Measured(value, cell.name, len(traces.traces), "there is nothing to compare with",
                    bound=missing(kind, cell), mode="equivalence", decided="inconclusive")  # fmt: skip


def _cell(gate: Gate, cell: CellResult, traces: CellTraces, measure: Measure) -> Measured:
    assert gate.floor is not None and gate.factor is not None
    name = NAMES[gate.floor]
    values, floor = paired(traces, measure)
    if not floor.any():
        return _exact_zero(cell, traces, name, measure)
    found = tost_ratio(values, floor, gate.factor)
    bound = Bound(
        gate.factor,
        f"the ratio must lie inside 1/{gate.factor:g} … {gate.factor:g}, at {1 - 2 * found.alpha:.0%} confidence; "
        f"{name} is {floor.mean():.3g} nat, a trace's spread on average ({told(measure)})",
        None if gate.floor is FloorKind.RUN else measure.traces,
    )
    estimate = Estimate.of(found.estimate)
    return Measured(
        estimate,
        cell.name,
        len(traces.traces),
        f"outputs move {_times(estimate.value)} {name} ({found.reading})",
        bound=bound,
        mode="equivalence",
        decided=_decided(found, gate.factor),
        reading=str(found.reading),
        power=None if found.spread is None else no_worse_power(len(floor), found.room, found.spread),
        power_of=f"to find a ratio of 1 under {gate.factor:g}",
        needed=None if found.spread is None else traces_for_no_worse(found.room, found.spread),
        passing=estimate.high,
    )


def _times(value: float | None) -> str:
    return "an unknown multiple of" if value is None else f"{value:.3g} times"


def paired(traces: CellTraces, measure: Measure) -> tuple[Wide, Wide]:
    """[clusters] of the cell and of the floor. A floor without traces of its own, or of other ones, is one number."""
    mean = measure.spread.value or 0.0
    known = [measure.trace_spread.get(name) for name in traces.traces]
    complete = all(value is not None for value in known)
    floor = np.array([value if complete and value is not None else mean for value in known], np.float64)
    return _by_cluster(traces.spread, traces.cluster), _by_cluster(floor, traces.cluster)


def _by_cluster(values: Wide, cluster: NDArray[np.int64]) -> Wide:
    means = ClusterMeans()
    for at in np.argsort(cluster, kind="stable"):
        means.add(str(cluster[at]), float(values[at]))
    return means.finish()


def _exact_zero(cell: CellResult, traces: CellTraces, name: str, measure: Measure) -> Measured:
    """A floor of 0 has no multiple: mismatches are counted, and none is allowed."""
    differ = {cell.name: int(traces.bits_differ.sum())}
    found = counted(differ, int(traces.positions.sum()), "positions", "differ in bits", len(traces.traces))
    bound = Bound(0.0, f"{name} is 0 ({told(measure)}), so no position may differ")
    return replace(found, bound=bound, mode="exact-zero", decided="fail" if differ[cell.name] else "pass")


def _decided(found: Equivalence, factor: float) -> Literal["pass", "fail", "inconclusive"]:
    """Less noise than the floor is no failure: the upper margin decides, and the reading says where the interval lies."""
    low, high = found.estimate.low, found.estimate.high
    if low is None or high is None:
        return "inconclusive"
    return "pass" if high < factor else "fail" if low >= factor else "inconclusive"
