"""The end of a run: stored parts, probes and gates become one result. It reads disk only, so it can be repeated.

``collect`` → ``assemble`` → ``finish``. What a resumed run reads here is what an uninterrupted one wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from replaycheck.compare.attribution import AttributionSums
from replaycheck.compare.conv_sums import CONV_COLUMNS, ConvCount, ConvSums
from replaycheck.compare.spill import Spill
from replaycheck.compare.summarise import Summariser
from replaycheck.compare.totals import add_arms, add_audits
from replaycheck.errors import InternalError
from replaycheck.floor.controls import pairings
from replaycheck.floor.own import own_floors, state_cells
from replaycheck.floor.sums import COLUMNS, FloorSums
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge, summary
from replaycheck.gates.load import LoadedGates
from replaycheck.gates.tables import InMemory, Tables
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.floor import Floors, Measure
from replaycheck.schema.gaps import StateDtype
from replaycheck.schema.result import ArmResult, Attribution, AuditResult, CellResult, Finding, ProbeResult, Result
from replaycheck.schema.semantics import LogprobSemantics

from .parts import RunTables, read_blocks, read_part, write_whole
from .precision import with_precision
from .store import Run, groups_done, iter_groups, write_json

__all__ = ["Collected", "FindFaults", "RunInfo", "assemble", "collect", "conv_counts", "finish"]

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
    notes: tuple[str, ...] = ()
    logprobs: LogprobSemantics = field(default_factory=LogprobSemantics)
    state_dtype: StateDtype | None = None


@dataclass(frozen=True)
class Collected:
    """What the groups of a run add up to. restores: the rows that a diagnosis reads, see ``restore_sums``."""

    arms: tuple[ArmResult, ...]
    audits: tuple[AuditResult, ...]
    cells: tuple[CellResult, ...]
    conv: tuple[ConvCount, ...]
    restores: pd.DataFrame
    traces: int
    attributions: tuple[Attribution, ...] = ()
    controls: tuple[Measure, ...] = ()
    tables: Tables = field(default_factory=InMemory)  # what gates read again


_OBSERVED = (*COLUMNS, "token", "top20")
"""Columns of OBSERVATIONS that a summary and a floor read."""

_BLOCK = 16_384
"""Rows of divergences.parquet that are in memory together: a row group of the file."""


def collect(run: Run, arms: Sequence[Arm], cells: Sequence[Cell]) -> Collected:
    """Add up the parts of all finished groups, one at a time; arms in the order of ``arms``. Writes divergences.parquet."""
    sums = {arm.name: arm for arm in add_arms(arm for record in iter_groups(run) for arm in record.arms)}
    missing = [arm.name for arm in arms if arm.name not in sums]
    if missing:
        raise InternalError(f"no group of the run has the arm {missing[0]!r}")
    with Spill(run.path) as spill:
        summary, parts, controls = Summariser(cells, spill), AttributionSums(arms), pairings(arms)
        floors = FloorSums(controls, spill, len(cells), state_cells(controls, cells))
        for name in sorted(groups_done(run)):
            pairs, restores = read_part(run, "pairs", name), read_part(run, "restores", name)
            observations = read_part(run, "observations", name, _OBSERVED)
            summary.add(name, pairs, observations, restores)
            parts.add(observations)
            floors.add(observations, restores)
        write_whole(run, "divergences", spill.parted(_BLOCK))
        return Collected(
            arms=tuple(sums[arm.name] for arm in arms),
            audits=add_audits(audit for record in iter_groups(run) for audit in record.audits),
            cells=summary.finish(sums),
            conv=summary.restores.conv,
            restores=summary.restores.evidence,
            traces=spill.traces,
            attributions=parts.finish(),
            tables=RunTables(run),
            controls=floors.finish(),
        )


def conv_counts(run: Run) -> tuple[ConvCount, ...]:
    """What a gate reads of the restores of a finished run."""
    sums = ConvSums()
    for block in read_blocks(run, "restores", CONV_COLUMNS):
        sums.add(block)
    return sums.finish()


def assemble(
    info: RunInfo,
    collected: Collected,
    probes: Sequence[ProbeResult],
    gates: Sequence[LoadedGates],
    find: FindFaults | None = None,
    floor: Floors | None = None,
) -> Result:
    """Judge, then ask ``find`` what the evidence proves. Admission of the gates is the caller's part.

    ``floor``: None for one of the run's own controls alone.
    """
    info = replace(info, logprobs=with_precision(info.logprobs, collected.tables))
    evidence = Evidence(
        arms=collected.arms,
        cells=collected.cells,
        probes=tuple(probes),
        audits=collected.audits,
        conv=collected.conv,
        traces=collected.traces,
        floor=floor or own_floors((), collected.controls),
        tables=collected.tables,
        precision=info.logprobs.precision or "fp64",
        state_dtype=info.state_dtype,
    )
    result = _result(info, evidence, gates)
    found = find(result, collected.restores) if find else ()
    return result.model_copy(update={"findings": found, "attributions": collected.attributions})


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
        notes=info.notes,
        logprobs=info.logprobs,
        state_dtype=info.state_dtype,
        arms=evidence.arms,
        cells=evidence.cells,
        probes=evidence.probes,
        audits=evidence.audits,
        gates=judged,
        findings=(),
        floor=evidence.floor,
        summary=summary(judged, evidence),
    )


def finish(run: Run, result: Result) -> None:
    """Write result.json, whose presence says that the run is complete."""
    write_json(run.result, result)
