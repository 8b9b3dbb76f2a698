"""Verdicts counted, and the one exit code of a run (docs/ci.md, Exit codes)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replaycheck.errors import PRECEDENCE, ExitCode
from replaycheck.schema.arm import Compiler
from replaycheck.schema.result import GateResult, GateVerdict, Summary, Verdict

from .evidence import Evidence

__all__ = ["INCONCLUSIVE", "code_under", "exit_code", "summary"]

INCONCLUSIVE = ("fail", "pass", "code")
"""What ``--inconclusive`` allows: exit code 1, 0, or its own."""

_CODES: dict[GateVerdict, ExitCode] = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.FAIL,
    "vacuous": ExitCode.VACUOUS,
    "inconclusive": ExitCode.INCONCLUSIVE,
    "waived": ExitCode.PASS,
    # Never alone: an earlier stage of the same file failed.
    "not-judged": ExitCode.PASS,
}
_VERDICTS: dict[ExitCode, Verdict] = {
    ExitCode.PASS: "pass",
    ExitCode.FAIL: "fail",
    ExitCode.VACUOUS: "vacuous",
    ExitCode.INCONCLUSIVE: "inconclusive",
}


def summary(gates: Sequence[GateResult], evidence: Evidence) -> Summary:
    """Counts, verdict and exit code of a run. One that judged nothing, or has a vacuous cell, is vacuous.

    A run on another state dtype than was asked for is inconclusive: its gates speak of what ran, and what ran isn't what
    somebody wanted to know about. It is no failure, since no state was seen to be wrong.
    """
    codes = [_CODES[gate.verdict] for gate in gates]
    if evidence.state_dtype is not None and evidence.state_dtype.another:
        codes.append(ExitCode.INCONCLUSIVE)
    if all(gate.verdict == "not-judged" for gate in gates) or any(cell.vacuous for cell in evidence.cells):
        codes.append(ExitCode.VACUOUS)
    code = exit_code(codes)
    return Summary(
        declared=len(gates),
        passed=_count(gates, "pass"),
        failed=_count(gates, "fail"),
        inconclusive=_count(gates, "inconclusive"),
        vacuous=_count(gates, "vacuous"),
        waived=_count(gates, "waived"),
        not_judged=_count(gates, "not-judged"),
        verdict=_VERDICTS[code],
        exit_code=int(code),
        traces=evidence.traces,
        restores=sum(arm.proven_hits for arm in evidence.arms if arm.compiler is Compiler.WARM),
        positions=sum(cell.positions for cell in evidence.cells),
    )


def _count(gates: Sequence[GateResult], verdict: GateVerdict) -> int:
    return sum(gate.verdict == verdict for gate in gates)


def exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """The first of several exit codes in the order of :data:`~replaycheck.errors.PRECEDENCE`; 0 if none of them is there."""
    found = set(codes)
    return next((code for code in PRECEDENCE if code in found), ExitCode.PASS)


def code_under(code: int, inconclusive: bool, policy: str = "code", exit_zero: bool = False) -> int:
    """The exit code of a verdict under a CI's policy; the verdict itself and what is written stay as they are.

    Args:
        code: of the verdict. inconclusive: whether any gate is, also behind a vacuous one (code 5).
        policy: one of :data:`INCONCLUSIVE`. exit_zero: any verdict exits 0; errors (2, 3, 4) don't come by here.
    """
    if exit_zero:
        return ExitCode.PASS
    if policy == "fail" and (code == ExitCode.INCONCLUSIVE or (inconclusive and code == ExitCode.VACUOUS)):
        return ExitCode.FAIL
    return ExitCode.PASS if policy == "pass" and code == ExitCode.INCONCLUSIVE else code
