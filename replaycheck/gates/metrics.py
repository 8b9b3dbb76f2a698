"""The numbers that a gate may bound, by name. Each is a function from the evidence and a scope to one measured number.

All of them grow with the fault, so a bound is always the largest value that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.floor import FloorKind
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import ArmResult, CellResult, ProbeResult

from .bounds import Bound, floor_of, missing, told
from .differences import flips_above_margin, tail_quantile, window_after_restore, worst_trace
from .equivalence import ratio_to_floor
from .evidence import Evidence
from .measured import Measured, counted, largest, nothing
from .scoped import cells_of, fewest_traces, why_vacuous
from .states import state_error
from .survival import first_divergence
from .unexplained import unexplained_differences

__all__ = ["METRICS", "PARALLEL", "Metric"]

PARALLEL = "parallel/"
"""How the names of the probes of tensor parallelism begin."""


@dataclass(frozen=True)
class Metric:
    """``reads`` says which keys of a scope mean something: cells take effect and pool, arms take pool, probes none.

    Attributes:
        floors: those that a bound may be a multiple of; empty: the bound is a constant.
        constant: whether the bound may be a constant.
        keys: of a gate's other keys, those that the metric takes; ``needs``: those that must be given.
        experiments: whether it can read the free one.
        nat: whether its value is a difference of log-probabilities, of which their precision hides the smallest.
        grows: whether more evidence can only raise the value, so that a failure stays one (``--fail-fast``).
    """

    measure: Callable[[Evidence, Gate], Measured]
    reads: Literal["cells", "arms", "probes"]
    floors: frozenset[FloorKind] = frozenset()
    constant: bool = True
    keys: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    experiments: bool = False
    nat: bool = False
    grows: bool = True


def positions_bits_differ(evidence: Evidence, gate: Gate) -> Measured:
    """Scored positions whose logits differ in any bit. Over F_run, the noise of running twice: none if that is 0."""
    cells = evidence.cells_in(gate.scope)
    events = {cell.name: cell.bits_differ for cell in cells}
    positions = sum(cell.positions for cell in cells)
    found = counted(events, positions, "positions", "differ in bits", fewest_traces(cells), why_vacuous(cells))
    return found if gate.floor is None or not positions else _over_run(found, evidence, gate, cells[0])


def _over_run(found: Measured, evidence: Evidence, gate: Gate, cell: CellResult) -> Measured:
    measure = floor_of(evidence, FloorKind.RUN, cell)
    if measure is None or gate.factor is None:
        return replace(found, bound=missing(FloorKind.RUN, cell))
    if measure.exact_zero:
        zero = f"F_run is 0 (0 of {measure.positions:,} positions, {told(measure)}), so none may differ"
        return replace(found, bound=Bound(0.0, zero), mode="exact-zero")
    rate = measure.bits_differ / measure.positions
    derivation = f"{gate.factor:g} × F_run; F_run is {rate:.3g} of the positions ({told(measure)})"
    return replace(found, bound=Bound(gate.factor * rate * found.estimate.n, derivation))


def restore_max_error(evidence: Evidence, gate: Gate) -> Measured:
    """Largest absolute error of an element of a restored state."""
    cells = evidence.cells_in(gate.scope)
    values = {cell.name: cell.restore_max_error for cell in cells if cell.restore_max_error is not None}
    restores = sum(cell.restores for cell in cells if cell.name in values)
    return largest(values, restores, "restores", "error of an element", fewest_traces(cells), why_vacuous(cells))


def conv_unequal(evidence: Evidence, gate: Gate) -> Measured:
    """Conv states (restore and layer) whose bytes differ where they must not.

    In exact cells that is everywhere. Against split, a reduced pool changes the inputs of every layer but the model's
    first, so there only layer 0 counts; with an fp32 pool all of them do.
    """
    cells = cells_of(evidence, gate.scope, (Effect.EXACT, Effect.STATE))
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
    return counted(events, states, "conv states", "differ in bytes", fewest_traces(cells), why_vacuous(cells))


def bf16_like_states(evidence: Evidence, gate: Gate) -> Measured:
    """States in an fp32 or fp16 pool whose every element fits bf16: they were rounded to it before they were stored."""
    audits = list(evidence.audits_in(gate.scope))
    if audits and all(evidence.arm[audit.arm].pool is PoolDtype.BF16 for audit in audits):
        found = nothing("every state is in a bf16 pool", evidence.traces)
        return replace(found, unfit="every pool is bf16, so its states fit bf16 as they should")
    seen = [
        audit for audit in audits if evidence.arm[audit.arm].pool is not PoolDtype.BF16 and audit.min_share is not None
    ]
    events = {f"{audit.arm}, {audit.label}, layer {audit.layer}, head {audit.head}": audit.bf16_like for audit in seen}
    states = sum(audit.states for audit in seen)
    why = "" if states else "no state in an fp32 or fp16 pool was audited"
    return counted(events, states, "states", "fit bf16 in every element", evidence.traces, why)


def kernels_differ(evidence: Evidence, gate: Gate) -> Measured:
    """State and exact cells whose arms ran different kernels for the history, the tail or the answer."""
    cells = cells_of(evidence, gate.scope, (Effect.EXACT, Effect.STATE))
    pairs = {cell.name: (evidence.arm[cell.reference], evidence.arm[cell.candidate]) for cell in cells}
    seen = {name: pair for name, pair in pairs.items() if _common_parts(*pair)}
    events = {name: int(_differ(*pair)) for name, pair in seen.items()}
    why = why_vacuous(cells) or ("" if seen else "no arm recorded which kernels ran")
    return counted(events, len(seen), "cells", "ran different kernels", fewest_traces(cells), why)


def _common_parts(a: ArmResult, b: ArmResult) -> list[str]:
    """Parts of the work whose kernels both arms recorded; what wasn't seen can't differ."""
    return [part for part in sorted(a.kernels.keys() & b.kernels.keys()) if a.kernels[part] and b.kernels[part]]


def _differ(a: ArmResult, b: ArmResult) -> bool:
    return any(set(a.kernels[part]) != set(b.kernels[part]) for part in _common_parts(a, b))


def label_mismatches(evidence: Evidence, gate: Gate) -> Measured:
    """Restores of warm arms whose slot held another position than the plan said, or other bytes than were stored."""
    arms = evidence.warm_arms_in(gate.scope)
    # A state at another position has other bytes, too, and counts once.
    events = {arm.name: max(arm.label_mismatches, arm.content_mismatches) for arm in arms}
    # A restore of a wrong position may not count as a proven hit.
    restores = sum(max(arm.proven_hits, events[arm.name]) for arm in arms)
    return counted(events, restores, "restores", "took another state", evidence.traces, _no_restore(restores))


def missing_hits(evidence: Evidence, gate: Gate) -> Measured:
    """Hits that the plan expected and the subject didn't prove, in warm arms."""
    arms = evidence.warm_arms_in(gate.scope)
    events = {arm.name: max(0, arm.expected_hits - arm.proven_hits) for arm in arms}
    expected = sum(arm.expected_hits for arm in arms)
    return counted(events, expected, "expected hits", "didn't happen", evidence.traces, _no_restore(expected))


def _no_restore(count: int) -> str:
    return "" if count else "no warm arm restores anything"


def double_rounding_mismatches(evidence: Evidence, gate: Gate) -> Measured:
    """Values of the double-rounding probe that end at another number than one direct cast gives."""
    probes = [probe for probe in evidence.probes if probe.name == "double-rounding"]
    if not probes:
        return nothing("the probe double-rounding didn't run", None)
    values = {probe.name: _number(probe, "mismatches") for probe in probes}
    return largest(values, len(values), "probes", "number of mismatches", None)


def kernel_error_ratio(evidence: Evidence, gate: Gate) -> Measured:
    """Largest ratio of a kernel's error against the float64 oracle to the error that its recipe predicts."""
    probes = [probe for probe in evidence.probes if probe.name.startswith("kernels/")]
    if not probes:
        return nothing("no kernel probe ran", None)
    values = {probe.name: _number(probe, "ratio") for probe in probes}
    return largest(values, len(values), "kernel probes", "ratio of measured to predicted error", None)


def shard_mismatches(evidence: Evidence, gate: Gate) -> Measured:
    """States of ranks that aren't the slice of the whole's, bit for bit."""
    return _over_ranks(evidence, "mismatches", "number of states that aren't slices")


def sum_of_bound(evidence: Evidence, gate: Gate) -> Measured:
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


_NUM = frozenset({FloorKind.NUM})

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "positions-bits-differ": Metric(positions_bits_differ, "cells", floors=frozenset({FloorKind.RUN})),
        "unexplained-differences": Metric(unexplained_differences, "cells", grows=False),
        "restore-max-error": Metric(restore_max_error, "cells"),
        "conv-unequal": Metric(conv_unequal, "cells"),
        "kernels-differ": Metric(kernels_differ, "cells"),
        "state-error": Metric(state_error, "cells"),
        "worst-trace": Metric(worst_trace, "cells", frozenset(FloorKind), experiments=True, nat=True),
        "window-after-restore": Metric(window_after_restore, "cells", frozenset(FloorKind), experiments=True, nat=True),
        "tail-quantile": Metric(tail_quantile, "cells", frozenset(FloorKind), experiments=True, nat=True, grows=False),
        "flips-above-margin": Metric(flips_above_margin, "cells", keys=frozenset({"k"}), experiments=True, grows=False),
        "first-divergence": Metric(
            first_divergence,
            "cells",
            _NUM,
            keys=frozenset({"horizon"}),
            needs=frozenset({"horizon"}),
            experiments=True,
            grows=False,
        ),
        "ratio-to-floor": Metric(
            ratio_to_floor, "cells", frozenset(FloorKind), constant=False, experiments=True, grows=False
        ),
        "bf16-like-states": Metric(bf16_like_states, "arms"),
        "label-mismatches": Metric(label_mismatches, "arms"),
        "missing-hits": Metric(missing_hits, "arms"),
        "double-rounding-mismatches": Metric(double_rounding_mismatches, "probes"),
        "kernel-error-ratio": Metric(kernel_error_ratio, "probes"),
        "shard-mismatches": Metric(shard_mismatches, "probes"),
        "sum-of-bound": Metric(sum_of_bound, "probes"),
    }
)
