"""A fault in its small cell: the warm arm with it, split-rounded without, and what the gates say of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.compare.group import GroupComparison, compare_group
from replaycheck.compare.record import ArmRecording
from replaycheck.compare.spill import Spill
from replaycheck.compare.summarise import Summariser
from replaycheck.errors import InternalError, UsageError
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import Fault
from replaycheck.faults.signature import Signature
from replaycheck.faults.workloads import workload
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.replay.worker import network
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Arm, Compiler
from replaycheck.schema.result import CellResult, GateResult
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.pool import Pool

from .seen import First, first_wrong, measured

__all__ = ["CellSeen", "Lab"]

PROBED = ("double-rounding", "kernel-oracle")
"""Gates of ``exact`` that read probes; a cell has none."""


@dataclass(frozen=True)
class CellSeen:
    """What a cell showed.

    Attributes:
        gates: of the exact gate file, as judged; empty if the arm couldn't be run.
        refused: why not, in the words of what refused.
        planned: the first thing that the integer simulator says of the plan; "" if it finds nothing.
    """

    cell: str
    gates: tuple[GateResult, ...] = ()
    numbers: CellResult | None = None
    signature: Signature | None = None
    first: First | None = None
    refused: str = ""
    planned: str = ""

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that say that something is wrong, as faults claim them."""
        found = [f"{gate.file}/{gate.name}" for gate in self.gates if gate.verdict == "fail"]
        found += ["lab/refused"] if self.refused else []
        return (*found, *(["plan/simulator"] if self.planned else []))


@dataclass
class Lab:
    """Cells of one model and seed. References, which no fault enters, are run once."""

    model: Path
    gates: Sequence[LoadedGates]
    seed: int
    device: str = "cpu"
    _references: dict[tuple[str, str, str], ArmRecording] = field(default_factory=dict)

    def run(self, cell: SmallCell, fault: Fault | None, name: str = "") -> CellSeen:
        """The cell with a fault, or clean. ``name``: how the fault is found again, for the networks that are kept."""
        try:
            return self._run(cell, fault, name)
        except (InternalError, ValueError, UsageError) as error:
            return CellSeen(cell.name, refused=(str(error).splitlines() or [""])[0], planned=self._planned(cell, fault))

    def _planned(self, cell: SmallCell, fault: Fault | None) -> str:
        try:
            return next(iter(simulate(self._schedule(cell, cell.arms[1], fault)).problems), "")
        except (InternalError, ValueError, UsageError):
            return ""

    def _run(self, cell: SmallCell, fault: Fault | None, name: str) -> CellSeen:
        reference, warm = cell.arms
        schedule = self._schedule(cell, warm, fault)
        found = self._execute(cell, schedule, fault, name)
        recordings = {reference.name: self._reference(cell), warm.name: found}
        compared = compare_group(cell.group, cell.arms, (cell.exact,), recordings)
        gates, numbers = self.judged(cell, compared)
        return CellSeen(
            cell.name,
            gates,
            numbers,
            measured(recordings[reference.name], found),
            first_wrong(recordings[reference.name], found),
            planned=next(iter(simulate(schedule).problems), ""),
        )

    def _schedule(self, cell: SmallCell, arm: Arm, fault: Fault | None) -> Schedule:
        schedule = compile_schedule(workload(cell.group, self.seed), arm)
        return fault.on_schedule(schedule) if fault else schedule

    def _reference(self, cell: SmallCell) -> ArmRecording:
        arm = cell.arms[0]
        key = (cell.group, arm.name, cell.recipe)
        if key not in self._references:
            self._references[key] = self._execute(cell, self._schedule(cell, arm, None), None, "")
        return self._references[key]

    def _execute(self, cell: SmallCell, schedule: Schedule, fault: Fault | None, name: str) -> ArmRecording:
        spoiled = name if fault and fault.changes_network and schedule.arm.compiler in fault.enters else None
        found = network(self.model, cell.recipe, KernelChoice(device=self.device), spoiled, cell.tensor_parallel)
        found.reset()
        slots = fault.on_pool(Pool, schedule.arm.compiler) if fault else Pool
        (recording,) = execute([ArmRun(schedule, found, pool=slots)])
        return recording

    def clean(self, cell: SmallCell, compiler: Compiler) -> ArmRecording:
        """An arm of the cell without any fault."""
        return self._execute(cell, self._schedule(cell, cell.arm(compiler), None), None, "")

    def judged(self, cell: SmallCell, compared: GroupComparison) -> tuple[tuple[GateResult, ...], CellResult]:
        """What the gates say of the exact cell, and its numbers."""
        tables, record = compared.tables, compared.record
        with TemporaryDirectory(prefix="replaycheck-cell-") as scratch, Spill(Path(scratch)) as spill:
            summary = Summariser((cell.exact,), spill)
            summary.add(cell.group, tables["pairs"], tables["observations"], tables["restores"])
            cells = summary.finish({arm.name: arm for arm in record.arms})
            evidence = Evidence(record.arms, cells, (), record.audits, summary.restores.conv, spill.traces)
        judged = judge(self.gates, evidence)
        return tuple(gate for gate in judged if gate.name not in PROBED), cells[0]
