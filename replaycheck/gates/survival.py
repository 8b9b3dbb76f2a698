"""First divergence as survival data: the share of traces that have parted so many tokens after their first restore.

The mean of the traces that did part says 566 tokens where the truth is 1703; a trace that ends before it parts is censored.
One case a trace: its earliest divergence of any branch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from replaycheck.compare.columns import flags, floats, names
from replaycheck.errors import InternalError
from replaycheck.schema.floor import Measure
from replaycheck.schema.gate import Gate, Scope
from replaycheck.schema.result import CellResult, Estimate
from replaycheck.stats.survival import Survival, first_of_traces, survival

from .bounds import Bound, bound_in
from .evidence import Evidence
from .measured import CellNumber, Measured, worst_cell
from .scoped import fewest_traces, why_vacuous

__all__ = ["first_divergence"]

KIND = "argmax"
"""The first other top-1 token: what a greedy run would say otherwise."""

COLUMNS = ("cell", "experiment", "trace", "kind", "offset_from_restore", "censored")


def first_divergence(evidence: Evidence, gate: Gate) -> Measured:
    """1 - S(horizon) of Kaplan-Meier's curve, of cells that restore."""
    if gate.horizon is None:
        raise InternalError(f"gate {gate.name!r} has no horizon; loading it should have refused that")
    cells = evidence.cells_in(gate.scope)
    numbers = _numbers(evidence, gate, gate.horizon)
    return worst_cell(numbers, fewest_traces(cells), why_vacuous(cells), high_decides=True)


def _numbers(evidence: Evidence, gate: Gate, horizon: int) -> Iterator[CellNumber]:
    curves = _curves(evidence, gate.scope)
    for cell in evidence.cells_in(gate.scope):
        if cell.name in curves:
            yield _number(evidence, gate, cell, curves[cell.name], horizon)


def _number(evidence: Evidence, gate: Gate, cell: CellResult, curve: Survival, horizon: int) -> CellNumber:
    share = curve.share_at(horizon)
    parted = 1 - curve.at(horizon)
    traces = int(curve.at_risk[0])
    estimate = Estimate(
        value=None if share.value is None else parted,
        n=share.n,
        method=f"1 - S({horizon}), {share.method}",
        low=None if share.high is None else 1 - share.high,
        high=None if share.low is None else 1 - share.low,
    )
    words = f"{parted:.3g} of {traces:,} traces have another top-1 token within {horizon} tokens of their first restore"
    if share.value is None:
        words = f"none of {traces:,} traces was observed for {horizon} tokens after its first restore"
    bound = bound_in(evidence, gate, cell, _floor, "upper 95 % bound of traces with a flip")
    return CellNumber(parted, cell.name, traces, _reachable(bound), lambda: estimate, words)


def _reachable(bound: Bound) -> Bound:
    """A share can't exceed 1: over a control in which nearly every trace parts nothing can be judged."""
    if bound.value is None or bound.value < 1:
        return bound
    return Bound(None, f"no share can exceed the bound {bound.value:.3g}: {bound.derivation}")


def _floor(measure: Measure) -> float | None:
    """The most that the control can't exclude: with no flip in 72 traces a bound of 0 would be a claim of its own."""
    return measure.flip_traces.high


def _curves(evidence: Evidence, scope: Scope) -> dict[str, Survival]:
    wanted, wanted_run = {cell.name for cell in evidence.cells_in(scope)}, scope.experiment or "forced"
    found: dict[str, list[tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]]] = {}
    for block in evidence.tables.blocks("divergences", COLUMNS):
        cell, run, trace, kind = (names(block[name]) for name in ("cell", "experiment", "trace", "kind"))
        offset, censored = floats(block["offset_from_restore"]), flags(block["censored"])
        keep = (kind.code == kind.named(KIND)) & (run.code == run.named(wanted_run)) & ~np.isnan(offset)
        for code, name in enumerate(cell.of):
            mine = keep & (cell.code == code)
            if name in wanted and mine.any():
                traces = [trace.of[each] for each in trace.code[mine]]
                found.setdefault(name, []).append((offset[mine], censored[mine], traces))
    return {name: _curve(parts) for name, parts in found.items()}


def _curve(parts: list[tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]]) -> Survival:
    traces = [trace for _, _, mine in parts for trace in mine]
    code = {name: at for at, name in enumerate(dict.fromkeys(traces))}
    offset = np.concatenate([each for each, _, _ in parts]).astype(np.int64)
    censored = np.concatenate([each for _, each, _ in parts])
    return survival(*first_of_traces(offset, censored, np.array([code[name] for name in traces], np.int64)))
