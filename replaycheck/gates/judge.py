"""Gates × metrics → verdicts, and the one exit code of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from replaycheck.errors import PRECEDENCE, ExitCode
from replaycheck.schema.arm import Compiler
from replaycheck.schema.gate import Gate, Scope
from replaycheck.schema.result import GateResult, Summary, Verdict

from .evidence import Evidence
from .load import LoadedGates
from .measured import Measured
from .metrics import METRICS

__all__ = ["exit_code", "judge", "judge_gate", "summary"]

_CODES: dict[Verdict, ExitCode] = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.FAIL,
    "vacuous": ExitCode.VACUOUS,
    "inconclusive": ExitCode.INCONCLUSIVE,
}
_VERDICTS: dict[ExitCode, Verdict] = {code: verdict for verdict, code in _CODES.items()}


def judge(files: Iterable[LoadedGates], evidence: Evidence) -> tuple[GateResult, ...]:
    """Every gate of every file, in their order. Admission isn't looked at, so selftest can judge before it admits."""
    return tuple(judge_gate(loaded, gate, evidence) for loaded in files for gate in loaded.gates.gate)


def judge_gate(loaded: LoadedGates, gate: Gate, evidence: Evidence) -> GateResult:
    """One gate on the evidence."""
    measured = METRICS[gate.metric].measure(evidence, gate.scope)
    verdict = _verdict(gate, measured)
    admitted = loaded.admission.gates.get(gate.name) if loaded.admission else None
    return GateResult(
        name=gate.name,
        file=loaded.name,
        metric=gate.metric,
        scope=_scope(gate.scope),
        verdict=verdict,
        value=measured.estimate,
        bound=gate.bound,
        worst=measured.worst,
        why=gate.why,
        fault=gate.admitted_by,
        fault_value=admitted.value if admitted else None,
        sentence=_sentence(gate, measured, verdict),
    )


def _verdict(gate: Gate, measured: Measured) -> Verdict:
    """A value above the bound fails however little was seen; only to pass takes evidence (statistics.md C.12)."""
    value = measured.estimate.value
    if value is not None and value > gate.bound:
        return "fail"
    if value is None or measured.vacuous:
        return "vacuous"
    return "inconclusive" if _too_few(gate, measured) else "pass"


def _too_few(gate: Gate, measured: Measured) -> bool:
    return measured.traces is not None and measured.traces < gate.min_traces


def _scope(scope: Scope) -> str:
    parts = [f"effect {scope.effect}"] if scope.effect else []
    parts += ["pool " + " or ".join(scope.pool)] if scope.pool else []
    return ", ".join(parts) or "the whole run"


def _sentence(gate: Gate, measured: Measured, verdict: Verdict) -> str:
    if verdict == "fail":
        return f"{measured.words}, more than the bound {gate.bound:g}; worst in {measured.worst}."
    if verdict == "vacuous":
        return f"{measured.words}, which proves nothing: {measured.vacuous}."
    if verdict == "inconclusive":
        return f"{measured.words}, but the gate needs {gate.min_traces} traces and has {measured.traces}."
    return f"{measured.words}."


def summary(gates: Sequence[GateResult], evidence: Evidence) -> Summary:
    """Counts, verdict and exit code of a run. One that judged nothing, or has a vacuous cell, is vacuous."""
    codes = [_CODES[gate.verdict] for gate in gates]
    if not gates or any(cell.vacuous for cell in evidence.cells):
        codes.append(ExitCode.VACUOUS)
    code = exit_code(codes)
    return Summary(
        declared=len(gates),
        passed=_count(gates, "pass"),
        failed=_count(gates, "fail"),
        inconclusive=_count(gates, "inconclusive"),
        vacuous=_count(gates, "vacuous"),
        verdict=_VERDICTS[code],
        exit_code=int(code),
        traces=evidence.traces,
        restores=sum(arm.proven_hits for arm in evidence.arms if arm.compiler is Compiler.WARM),
        positions=sum(cell.positions for cell in evidence.cells),
    )


def _count(gates: Sequence[GateResult], verdict: Literal["pass", "fail", "inconclusive", "vacuous"]) -> int:
    return sum(gate.verdict == verdict for gate in gates)


def exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """The first of several exit codes by DESIGN §7's precedence; 0 if none of them is there."""
    found = set(codes)
    return next((code for code in PRECEDENCE if code in found), ExitCode.PASS)
