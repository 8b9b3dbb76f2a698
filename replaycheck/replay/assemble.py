"""The end of a run: stored groups, probes and gates become one result. It reads disk only, so it can be repeated.

``collect`` → ``assemble`` → ``finish``. What a resumed run reads here is what an uninterrupted one wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from replaycheck.compare.divergence import divergences
from replaycheck.compare.summarise import summarise
from replaycheck.compare.totals import add_arms, add_audits
from replaycheck.errors import InternalError
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge, summary
from replaycheck.gates.load import LoadedGates
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.result import ArmResult, AuditResult, Finding, ProbeResult, Result

from .store import Run, read_groups, read_table, write_json, write_whole

__all__ = ["Collected", "FindFaults", "RunInfo", "assemble", "collect", "finish"]

#: From the result without findings, and the RESTORES rows, to the findings.
FindFaults = Callable[[Result, pd.DataFrame], tuple[Finding, ...]]


@dataclass(frozen=True)
class RunInfo:
    """What identifies a run in its result; see the fields of :class:`Result`."""

    suite: str
    suite_digest: str
    subject: str
    model: str
    model_digest: str
    recipe: str
    kernels: str
    device: str
    seed: int
    faults: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collected:
    """Everything of a run's groups."""

    arms: tuple[ArmResult, ...]
    audits: tuple[AuditResult, ...]
    pairs: pd.DataFrame
    restores: pd.DataFrame
    divergences: pd.DataFrame


def collect(run: Run, arms: Sequence[Arm], cells: Sequence[Cell]) -> Collected:
    """Read the tables and sums of all finished groups; arms in the order of ``arms``."""
    groups = read_groups(run)
    sums = {arm.name: arm for arm in add_arms(arm for group in groups for arm in group.arms)}
    missing = [arm.name for arm in arms if arm.name not in sums]
    if missing:
        raise InternalError(f"no group of the run has the arm {missing[0]!r}")
    pairs = read_table(run, "pairs")
    return Collected(
        arms=tuple(sums[arm.name] for arm in arms),
        audits=add_audits(audit for group in groups for audit in group.audits),
        pairs=pairs,
        restores=read_table(run, "restores"),
        divergences=divergences(pairs, read_table(run, "observations"), cells),
    )


def assemble(
    info: RunInfo,
    cells: Sequence[Cell],
    collected: Collected,
    probes: Sequence[ProbeResult],
    gates: Sequence[LoadedGates],
    find: FindFaults | None = None,
) -> Result:
    """Judge, then ask ``find`` what the evidence proves. Admission of the gates is the caller's part."""
    evidence = Evidence(
        arms=collected.arms,
        cells=summarise(
            cells,
            collected.pairs,
            collected.restores,
            collected.divergences,
            {arm.name: arm for arm in collected.arms},
        ),
        probes=tuple(probes),
        audits=collected.audits,
        restores=collected.restores,
        traces=int(collected.pairs["trace"].nunique()),
    )
    result = _result(info, evidence, gates)
    found = find(result, collected.restores) if find else ()
    return result.model_copy(update={"findings": found})


def _result(info: RunInfo, evidence: Evidence, gates: Sequence[LoadedGates]) -> Result:
    judged = judge(gates, evidence)
    return Result(
        suite=info.suite,
        suite_digest=info.suite_digest,
        subject=info.subject,
        model=info.model,
        model_digest=info.model_digest,
        recipe=info.recipe,
        kernels=info.kernels,
        device=info.device,
        seed=info.seed,
        faults=info.faults,
        not_checked=info.not_checked,
        arms=evidence.arms,
        cells=evidence.cells,
        probes=evidence.probes,
        audits=evidence.audits,
        gates=judged,
        findings=(),
        summary=summary(judged, evidence),
    )


def finish(run: Run, collected: Collected, result: Result) -> None:
    """Write divergences.parquet, then result.json, whose presence says that the run is complete."""
    write_whole(run, "divergences", collected.divergences)
    write_json(run.result, result)
