"""The numbers that a gate may bound, by name. Each is a function from the evidence and a scope to one measured number.

All of them grow with the fault, so a bound is always the largest value that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.gate import Scope
from replaycheck.schema.result import ArmResult, CellResult, ProbeResult

from .evidence import Evidence
from .measured import Measured, counted, largest, nothing

__all__ = ["METRICS", "PARALLEL", "Metric"]

PARALLEL = "parallel/"
"""How the names of the probes of tensor parallelism begin."""


@dataclass(frozen=True)
class Metric:
    """``reads`` says which keys of a scope mean something: cells take effect and pool, arms take pool, probes none."""

    measure: Callable[[Evidence, Scope], Measured]
    reads: Literal["cells", "arms", "probes"]


def _cells(evidence: Evidence, scope: Scope, effects: tuple[Effect, ...]) -> tuple[CellResult, ...]:
    return tuple(cell for cell in evidence.cells_in(scope) if cell.effect in effects)


def _traces(cells: tuple[CellResult, ...]) -> int:
    """Of the cell that has the fewest: the gate speaks about each of them."""
    return min((cell.traces for cell in cells), default=0)


def _vacuous(cells: tuple[CellResult, ...]) -> str:
    """Why a gate over these cells proves nothing; one empty cell is enough, since the gate speaks about each."""
    empty = [cell for cell in cells if cell.vacuous]
    if empty:
        return f"{len(empty)} of {len(cells)} cells are vacuous; {empty[0].name}: {empty[0].why_vacuous}"
    return "" if cells else "the suite has no cell of this scope"


def positions_bits_differ(evidence: Evidence, scope: Scope) -> Measured:
    """Scored positions whose logits differ in any bit."""
    cells = evidence.cells_in(scope)
    events = {cell.name: cell.bits_differ for cell in cells}
    positions = sum(cell.positions for cell in cells)
    return counted(events, positions, "positions", "differ in bits", _traces(cells), _vacuous(cells))


def restore_max_error(evidence: Evidence, scope: Scope) -> Measured:
    """Largest absolute error of an element of a restored state."""
    cells = evidence.cells_in(scope)
    values = {cell.name: cell.restore_max_error for cell in cells if cell.restore_max_error is not None}
    restores = sum(cell.restores for cell in cells if cell.name in values)
    return largest(values, restores, "restores", "error of an element", _traces(cells), _vacuous(cells))


def conv_unequal(evidence: Evidence, scope: Scope) -> Measured:
    """Conv states (restore and layer) whose bytes differ where they must not.

    In exact cells that is everywhere. Against split, a reduced pool changes the inputs of every layer but the model's
    first, so there only layer 0 counts; with an fp32 pool all of them do.
    """
    cells = _cells(evidence, scope, (Effect.EXACT, Effect.STATE))
    exact = {cell.name for cell in cells if cell.effect is Effect.EXACT}
    scoped = {cell.name for cell in cells}
    counts = [
        count
        for count in evidence.conv
        if count.cell in scoped and (count.cell in exact or count.dtype == PoolDtype.FP32 or count.layer == 0)
    ]
    events = {count.cell: 0 for count in counts}
    for count in counts:
        events[count.cell] += count.unequal
    states = sum(count.states for count in counts)
    return counted(events, states, "conv states", "differ in bytes", _traces(cells), _vacuous(cells))


def bf16_like_states(evidence: Evidence, scope: Scope) -> Measured:
    """States in an fp32 or fp16 pool whose every element fits bf16: they were rounded to it before they were stored."""
    seen = [
        audit
        for audit in evidence.audits_in(scope)
        if evidence.arm[audit.arm].pool is not PoolDtype.BF16 and audit.min_share is not None
    ]
    events = {f"{audit.arm}, {audit.label}, layer {audit.layer}, head {audit.head}": audit.bf16_like for audit in seen}
    states = sum(audit.states for audit in seen)
    why = "" if states else "no state in an fp32 or fp16 pool was audited"
    return counted(events, states, "states", "fit bf16 in every element", evidence.traces, why)


def kernels_differ(evidence: Evidence, scope: Scope) -> Measured:
    """State and exact cells whose arms ran different kernels for the history, the tail or the answer."""
    cells = _cells(evidence, scope, (Effect.EXACT, Effect.STATE))
    pairs = {cell.name: (evidence.arm[cell.reference], evidence.arm[cell.candidate]) for cell in cells}
    seen = {name: pair for name, pair in pairs.items() if _common_parts(*pair)}
    events = {name: int(_differ(*pair)) for name, pair in seen.items()}
    why = _vacuous(cells) or ("" if seen else "no arm recorded which kernels ran")
    return counted(events, len(seen), "cells", "ran different kernels", _traces(cells), why)


def _common_parts(a: ArmResult, b: ArmResult) -> list[str]:
    """Parts of the work whose kernels both arms recorded; what wasn't seen can't differ."""
    return [part for part in sorted(a.kernels.keys() & b.kernels.keys()) if a.kernels[part] and b.kernels[part]]


def _differ(a: ArmResult, b: ArmResult) -> bool:
    return any(set(a.kernels[part]) != set(b.kernels[part]) for part in _common_parts(a, b))


def label_mismatches(evidence: Evidence, scope: Scope) -> Measured:
    """Restores of warm arms whose slot held another position than the plan said, or other bytes than were stored."""
    arms = evidence.warm_arms_in(scope)
    # A state at another position has other bytes, too, and counts once.
    events = {arm.name: max(arm.label_mismatches, arm.content_mismatches) for arm in arms}
    # A restore of a wrong position may not count as a proven hit.
    restores = sum(max(arm.proven_hits, events[arm.name]) for arm in arms)
    return counted(events, restores, "restores", "took another state", evidence.traces, _no_restore(restores))


def missing_hits(evidence: Evidence, scope: Scope) -> Measured:
    """Hits that the plan expected and the subject didn't prove, in warm arms."""
    arms = evidence.warm_arms_in(scope)
    events = {arm.name: max(0, arm.expected_hits - arm.proven_hits) for arm in arms}
    expected = sum(arm.expected_hits for arm in arms)
    return counted(events, expected, "expected hits", "didn't happen", evidence.traces, _no_restore(expected))


def _no_restore(count: int) -> str:
    return "" if count else "no warm arm restores anything"


def double_rounding_mismatches(evidence: Evidence, scope: Scope) -> Measured:
    """Values of the double-rounding probe that end at another number than one direct cast gives."""
    probes = [probe for probe in evidence.probes if probe.name == "double-rounding"]
    if not probes:
        return nothing("the probe double-rounding didn't run", None)
    values = {probe.name: _number(probe, "mismatches") for probe in probes}
    return largest(values, len(values), "probes", "number of mismatches", None)


def kernel_error_ratio(evidence: Evidence, scope: Scope) -> Measured:
    """Largest ratio of a kernel's error against the float64 oracle to the error that its recipe predicts."""
    probes = [probe for probe in evidence.probes if probe.name.startswith("kernels/")]
    if not probes:
        return nothing("no kernel probe ran", None)
    values = {probe.name: _number(probe, "ratio") for probe in probes}
    return largest(values, len(values), "kernel probes", "ratio of measured to predicted error", None)


def shard_mismatches(evidence: Evidence, scope: Scope) -> Measured:
    """States of ranks that aren't the slice of the whole's, bit for bit."""
    return _over_ranks(evidence, "mismatches", "number of states that aren't slices")


def sum_of_bound(evidence: Evidence, scope: Scope) -> Measured:
    """Largest difference of a sum over ranks from the whole one, as a share of what another order of additions explains."""
    return _over_ranks(evidence, "sum_of_bound", "share of the bound of a sum's order")


def _over_ranks(evidence: Evidence, key: str, what: str) -> Measured:
    probes = [probe for probe in evidence.probes if probe.name.startswith(PARALLEL)]
    if not probes:
        return nothing("no arm has more than one rank, or the recipe is the float64 oracle's", None)
    return largest({probe.name: _number(probe, key) for probe in probes}, len(probes), "degrees", what, None)


def _number(probe: ProbeResult, key: str) -> float:
    value = probe.values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InternalError(f"probe {probe.name!r} gives {key} = {value!r}; a gate needs a number there")
    return float(value)


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "positions-bits-differ": Metric(positions_bits_differ, "cells"),
        "restore-max-error": Metric(restore_max_error, "cells"),
        "conv-unequal": Metric(conv_unequal, "cells"),
        "kernels-differ": Metric(kernels_differ, "cells"),
        "bf16-like-states": Metric(bf16_like_states, "arms"),
        "label-mismatches": Metric(label_mismatches, "arms"),
        "missing-hits": Metric(missing_hits, "arms"),
        "double-rounding-mismatches": Metric(double_rounding_mismatches, "probes"),
        "kernel-error-ratio": Metric(kernel_error_ratio, "probes"),
        "shard-mismatches": Metric(shard_mismatches, "probes"),
        "sum-of-bound": Metric(sum_of_bound, "probes"),
    }
)
