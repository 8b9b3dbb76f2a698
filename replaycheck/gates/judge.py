"""Gates × metrics → verdicts: bounds first, then waivers, then the fixed sequence. The summary is next door."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from math import inf

from replaycheck.schema.gate import Gate, Scope
from replaycheck.schema.result import GateResult, GateVerdict
from replaycheck.stats.precision import LogprobPrecision, refusal

from .bounds import Bound
from .evidence import Evidence
from .load import LoadedGates
from .measured import Measured
from .metrics import METRICS
from .sequence import in_sequence
from .summary import exit_code, summary
from .waivers import waived

__all__ = ["exit_code", "judge", "judge_gate", "summary"]

SHARE = 0.05
"""The usual power of a gate is about a fault that touches one trace in twenty. 59 traces see such a fault with 95 %."""


def judge(files: Iterable[LoadedGates], evidence: Evidence, today: date | None = None) -> tuple[GateResult, ...]:
    """Every gate of every file, in their order. Admission isn't looked at, so selftest can judge before it admits.

    ``today``: the date (UTC) at which waivers are looked at; None for the current one.
    """
    day = today or datetime.now(UTC).date()
    found: list[GateResult] = []
    for loaded in files:
        judged = [judge_gate(loaded, gate, evidence) for gate in loaded.gates.gate]
        found += in_sequence([waived(result, loaded.waiver(result.name), day) for result in judged])
    return tuple(found)


def judge_gate(loaded: LoadedGates, gate: Gate, evidence: Evidence) -> GateResult:
    """One gate on the evidence, before waivers and the sequence."""
    measured = METRICS[gate.metric].measure(evidence, gate)
    bound = measured.bound or Bound(gate.bound, "" if gate.bound is None else f"the constant {gate.bound:g}")
    refused = _refused(gate, bound, evidence)
    verdict: GateVerdict = "inconclusive" if refused else _verdict(gate, measured, bound)
    admitted = loaded.admission.gates.get(gate.name) if loaded.admission else None
    return GateResult(
        name=gate.name,
        file=loaded.name,
        metric=gate.metric,
        scope=_scope(gate.scope),
        verdict=verdict,
        value=measured.estimate,
        bound=bound.value,
        worst=measured.worst,
        why=gate.why,
        fault=gate.admitted_by,
        fault_value=admitted.value if admitted else None,
        sentence=f"Not judged: {refused}." if refused else _sentence(gate, measured, bound, verdict),
        line=loaded.line(gate.name),
        stage=gate.stage,
        mode=measured.mode,
        derivation=bound.derivation,
        reading=measured.reading,
        traces=measured.traces,
        separation=admitted.separation(gate) if admitted else None,
        power=_power(measured),
        power_of=measured.power_of or _power_of(measured),
        traces_needed=_needed(gate, measured, bound) if verdict == "inconclusive" else None,
        passing_bound=_passing(measured),
    )


def _refused(gate: Gate, bound: Bound, evidence: Evidence) -> str:
    """Why the bound judges a number format and not the subject; "" if it doesn't."""
    if not METRICS[gate.metric].nat or bound.value is None:
        return ""
    return refusal(bound.value, "dlogp", LogprobPrecision.parse(evidence.precision))


def _verdict(gate: Gate, measured: Measured, bound: Bound) -> GateVerdict:
    """A value above the bound fails however little was seen; only to pass takes evidence.

    A bound over a floor is an estimate itself: one trace of 12 positions exceeds 3 times its own F_num in 1 of 17 clean
    suites. So a floor of fewer traces than the gate needs can't fail it.
    """
    if measured.unfit:
        return "not-judged"
    value = measured.estimate.value
    if _over(measured, bound):
        return "inconclusive" if _floor_too_small(gate, bound) else "fail"
    if measured.vacuous or (value is None and measured.decided is None and bound.value is not None):
        return "vacuous" if measured.vacuous else "inconclusive"
    if bound.value is None or _too_few(gate, measured) or measured.decided == "inconclusive":
        return "inconclusive"
    return "inconclusive" if _too_wide(measured, bound) else "pass"


def _over(measured: Measured, bound: Bound) -> bool:
    value = measured.estimate.value
    return measured.decided == "fail" or (measured.decided is None and value is not None and bound.broken_by(value))


def _floor_too_small(gate: Gate, bound: Bound) -> bool:
    return bound.traces is not None and bound.traces < gate.min_traces


def _too_few(gate: Gate, measured: Measured) -> bool:
    return measured.traces is not None and measured.traces < gate.min_traces


def _too_wide(measured: Measured, bound: Bound) -> bool:
    """The value is within the bound and its interval isn't."""
    high = measured.estimate.high
    return measured.high_decides and high is not None and bound.broken_by(high)


def _passing(measured: Measured) -> float | None:
    if measured.passing is not None:
        return measured.passing
    return measured.estimate.high if measured.high_decides else measured.estimate.value


def _power(measured: Measured) -> float | None:
    if measured.power is not None or measured.traces is None:
        return measured.power
    return float(1 - (1 - SHARE) ** measured.traces)


def _power_of(measured: Measured) -> str:
    return "" if measured.traces is None else "to see a fault that touches one trace in twenty"


def _needed(gate: Gate, measured: Measured, bound: Bound) -> int | None:
    """Traces for a decision: what the file asks for, and what narrows an interval to the bound (its width falls as 1/√n)."""
    wanted = [gate.min_traces, measured.needed or 0]
    value, high, traces = measured.estimate.value, measured.estimate.high, measured.traces
    if _too_wide(measured, bound) and value is not None and high is not None and bound.value is not None and traces:
        room = bound.value - value
        wanted.append(round(traces * ((high - value) / room) ** 2) + 1 if room > 0 else 0)
    most = max(wanted)
    return most if most > (measured.traces or 0) and most < inf else None


def _scope(scope: Scope) -> str:
    parts = [f"effect {scope.effect}"] if scope.effect else []
    parts += [f"{scope.experiment} run"] if scope.experiment == "free" else []
    parts += ["pool " + " or ".join(scope.pool)] if scope.pool else []
    return ", ".join(parts) or "the whole run"


def _sentence(gate: Gate, measured: Measured, bound: Bound, verdict: GateVerdict) -> str:
    if verdict == "fail":
        return f"{measured.words}, more than {_bound(bound)}; worst in {measured.worst}."
    if verdict == "not-judged":
        return f"Not judged: {measured.unfit}."
    if verdict == "vacuous":
        return f"{measured.words}, which proves nothing: {measured.vacuous}."
    if verdict == "inconclusive":
        return f"{measured.words}, but {_undecided(gate, measured, bound)}."
    return f"{measured.words}."


def _bound(bound: Bound) -> str:
    return f"the bound {bound.value:g}" if bound.value is not None else "the bound"


def _undecided(gate: Gate, measured: Measured, bound: Bound) -> str:
    if bound.value is None:
        return bound.derivation
    if _over(measured, bound):
        return f"{_bound(bound)} is over a floor of {bound.traces} traces, and to fail takes {gate.min_traces}"
    if _too_few(gate, measured):
        return f"the gate needs {gate.min_traces} traces and has {measured.traces}"
    needed = _needed(gate, measured, bound)
    more = f"; about {needed:,} traces would decide" if needed else ""
    high = measured.estimate.high
    if measured.estimate.value is None:
        return "there is no number to hold against the bound"
    if high is None:
        return f"it has no interval{more}"
    return f"its interval reaches {high:.3g}, over {_bound(bound)}{more}"
