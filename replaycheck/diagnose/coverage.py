"""RC110, RC301, RC601, RC602, RC901, RC902: kernels, hits, ranks and the amount of evidence."""

from __future__ import annotations

from replaycheck.schema.arm import Compiler
from replaycheck.schema.result import ArmResult, Finding

from .evidence import Evidence
from .restores import first_of_arms

__all__ = ["different_kernels", "kernel_error", "missed_hits", "other_shard", "too_few_traces", "vacuous"]

KERNEL_PROBE = "kernel"
"""Probes that hold a kernel against the oracle have names that start so."""
PARALLEL_PROBE = "parallel/"
"""Those that hold ranks against the whole."""


def kernel_error(evidence: Evidence) -> Finding | None:
    """RC110: a kernel probe failed."""
    failed = [probe for probe in evidence.probes if probe.name.startswith(KERNEL_PROBE) and probe.verdict == "fail"]
    if not failed:
        return None
    lines = [f"{probe.name}: {probe.sentence}" for probe in failed]
    sentence = "1 kernel probe shows it" if len(failed) == 1 else f"{len(failed)} kernel probes show it"
    return evidence.finding("RC110", f"{sentence}: {', '.join(probe.name for probe in failed[:3])}.", lines)


def other_shard(evidence: Evidence) -> Finding | None:
    """RC602: the probe of tensor parallelism failed."""
    failed = [probe for probe in evidence.probes if probe.name.startswith(PARALLEL_PROBE) and probe.verdict == "fail"]
    if not failed:
        return None
    lines = [f"{probe.name}: {probe.sentence}" for probe in failed]
    return evidence.finding("RC602", f"Seen on equal layer inputs, by {failed[0].name}.", lines)


def missed_hits(evidence: Evidence) -> Finding | None:
    """RC301: a warm arm has fewer proven hits than its schedule expected."""
    short = [arm for arm in evidence.arms if arm.compiler is Compiler.WARM and arm.proven_hits < arm.expected_hits]
    if not short:
        return None
    missing = sum(arm.expected_hits - arm.proven_hits for arm in short)
    expected = sum(arm.expected_hits for arm in short)
    sentence = f"{missing:,} of {expected:,} are missing, in {len(short)} warm arms."
    lines = [f"{arm.name}: {arm.proven_hits:,} of {arm.expected_hits:,} hits" for arm in short]
    return evidence.finding("RC301", sentence, lines)


def different_kernels(evidence: Evidence) -> Finding | None:
    """RC601: for history, tail or answer the two arms of a cell ran different kernels; unseen roles don't count."""
    lines, arms = [], set()
    for cell in evidence.cells:
        pair = evidence.arm.get(cell.reference), evidence.arm.get(cell.candidate)
        if pair[0] is not None and pair[1] is not None and (roles := _differences(pair[0], pair[1])):
            lines += [f"{cell.name}, {role}" for role in roles]
            arms.add(cell.candidate)
    if not lines:
        return None
    sentence = f"At {len(lines)} places of the matrix, where the two should differ by one effect alone."
    return evidence.finding("RC601", sentence, lines, first_of_arms(evidence, arms))


def _differences(a: ArmResult, b: ArmResult) -> list[str]:
    return [
        f"{role}: {', '.join(a.kernels[role])} against {', '.join(b.kernels[role])}"
        for role in sorted(a.kernels.keys() & b.kernels.keys())
        if a.kernels[role] and b.kernels[role] and set(a.kernels[role]) != set(b.kernels[role])
    ]


def vacuous(evidence: Evidence) -> Finding | None:
    """RC901: a cell compared nothing, or its warm arm has no proven hit."""
    empty = [cell for cell in evidence.cells if cell.vacuous]
    if not empty:
        return None
    why = empty[0].why_vacuous or "no position compared"
    sentence = f"{len(empty)} of {len(evidence.cells)} cells prove nothing: {why}."
    return evidence.finding("RC901", sentence, [f"{cell.name}: {cell.why_vacuous}" for cell in empty])


def too_few_traces(evidence: Evidence) -> Finding | None:
    """RC902: a gate is inconclusive though it has a number and a bound; without one of them, more traces wouldn't help."""
    open_ = [
        gate
        for gate in evidence.gates
        if gate.verdict == "inconclusive" and gate.bound is not None and gate.value.value is not None
    ]
    if not open_:
        return None
    sentence = f"{len(open_)} of {len(evidence.gates)} gates can't judge: {', '.join(gate.name for gate in open_[:3])}."
    return evidence.finding("RC902", sentence, [f"{gate.name}: {gate.sentence} (n = {gate.value.n})" for gate in open_])
