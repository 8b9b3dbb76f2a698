"""A reduced suite: a few small groups under the arms of the preset ``ci``, for gates that need floors and several traces.

All arms of all groups run in lockstep, which fills the lab's 64 rows and takes a third of the time; the lab's bits don't
depend on that. Arms that a fault doesn't enter are replayed once. Evidence is written and added up as in a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.compare.group import compare_group
from replaycheck.compare.record import ArmRecording
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import find_fault
from replaycheck.faults.workloads import workload
from replaycheck.floor.own import own_floors
from replaycheck.floor.repeat import repeated
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.replay.assemble import collect
from replaycheck.replay.store import Run, write_group
from replaycheck.replay.worker import Work, lab_run, planned
from replaycheck.schema.arm import Answers, Arm, Cell, Effect, PoolDtype
from replaycheck.schema.floor import Measure
from replaycheck.schema.result import GateResult
from replaycheck.schema.suite import Matrix, Suite, expand
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import execute
from replaycheck.subjects.lab.kernels import KernelChoice

__all__ = ["EFFECTS", "ReducedSuite", "arms_and_cells", "judge_groups", "small_groups"]

EFFECTS = (Effect.GRID, Effect.STATE, Effect.EXACT, Effect.TOTAL)

LOCKSTEP = 60
"""Runs at a time: a pass of the lab has 64 rows, whether they are used or not."""


def small_groups(name: str, seeds: Iterable[int]) -> tuple[Group, ...]:
    """The small group ``name`` once a seed: other letters, and names of their own for group and traces."""
    return tuple(_named(workload(name, seed), f"{name}.{seed}") for seed in seeds)


def _named(group: Group, name: str) -> Group:
    own = {trace.id: f"{name}.{trace.id}" for trace in group.traces}
    traces = tuple(trace.model_copy(update={"id": own[trace.id]}) for trace in group.traces)
    requests = tuple(each.model_copy(update={"trace": own[each.trace]}) for each in group.requests)
    return group.model_copy(update={"group": name, "traces": traces, "requests": requests})


def arms_and_cells(cell: SmallCell) -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
    """The cell with an fp32 pool, too, under every effect."""
    answers = Answers.DECODED if cell.policy.keeps_answers else Answers.PREFILLED
    matrix = Matrix(
        history=(cell.history,),
        tail=(cell.tail,),
        answers=(answers,),
        pool=tuple(dict.fromkeys((PoolDtype.FP32, cell.pool))),
        policy=cell.policy,
        effects=EFFECTS,
        rollback=(cell.rollback,) if cell.rollback else (),
        ring=cell.ring,
        tensor_parallel=(cell.tensor_parallel,),
        padding=(cell.padding,) if cell.padding else (),
    )
    suite = {"schema": "replaycheck.suite/1", "name": "reduced", "traces": ("made",), "recipe": cell.recipe}
    return expand(Suite.model_validate(suite | {"matrix": (matrix,)}))


def judge_groups(
    gates: Sequence[LoadedGates],
    work: Work,
    groups: Sequence[Group],
    recordings: Mapping[str, Sequence[ArmRecording]],
    repeats: Sequence[Measure] = (),
) -> tuple[GateResult, ...]:
    """Recordings by arm, one a group, by the road of a run: parts on disk, added up, floors, gates."""
    with TemporaryDirectory(prefix="replaycheck-reduced-") as scratch:
        run = Run(Path(scratch))
        for at, group in enumerate(groups):
            found = {arm.name: recordings[arm.name][at] for arm in work.arms}
            compared = compare_group(group.group, work.arms, work.cells, found)
            write_group(run, compared.tables, compared.record)
        parts = collect(run, work.arms, work.cells)
        floor = own_floors(repeats, parts.controls)
        seen = parts.arms, parts.cells, (), parts.audits, parts.conv, parts.traces
        return judge(gates, Evidence(*seen, floor, parts.tables))


@dataclass
class ReducedSuite:
    """``groups`` have names and texts of their own; ``cell`` says kernels, policy and pool."""

    model: Path
    groups: Sequence[Group]
    cell: SmallCell
    _clean: dict[str, list[ArmRecording]] = field(default_factory=dict, repr=False)

    @cached_property
    def _work(self) -> Work:
        return Work(*arms_and_cells(self.cell), self.model, self.cell.recipe, (), KernelChoice())

    def judged(self, gates: Sequence[LoadedGates], fault: str | None = None) -> tuple[GateResult, ...]:
        """What the gates say with a fault planted, or without one.

        Raises what an arm raises that can't be run with the fault.
        """
        return judge_groups(gates, self._work, self.groups, self._recordings(fault), self._repeats)

    def judged_one_by_one(
        self, gates: Sequence[LoadedGates], fault: str | None = None
    ) -> Iterator[tuple[GateResult, ...]]:
        """The same of each group by itself, as if it were a suite."""
        recordings = self._recordings(fault)
        for at, group in enumerate(self.groups):
            mine = {name: [found[at]] for name, found in recordings.items()}
            yield judge_groups(gates, self._work, [group], mine, self._repeats)

    @cached_property
    def _repeats(self) -> tuple[Measure, ...]:
        """F_run, of the first group."""
        cold = [arm for arm in self._work.arms if arm.compiler == "cold"][:1]
        work = Work(tuple(cold), (), self.model, self.cell.recipe, (), KernelChoice())
        with TemporaryDirectory(prefix="replaycheck-repeat-") as scratch:
            return repeated(work, self.groups[:1], Path(scratch))

    def _recordings(self, fault: str | None) -> dict[str, list[ArmRecording]]:
        """By arm, a recording a group."""
        if not self._clean:
            self._clean = self._executed(self._work.arms, ())
        if fault is None:
            return self._clean
        entered = find_fault(fault).enters
        return self._clean | self._executed([arm for arm in self._work.arms if arm.compiler in entered], (fault,))

    def _executed(self, arms: Sequence[Arm], faults: tuple[str, ...]) -> dict[str, list[ArmRecording]]:
        work = Work(tuple(arms), (), self.model, self.cell.recipe, faults, KernelChoice())
        runs = [lab_run(work, planned(work, group, arm)) for arm in arms for group in self.groups]
        for network in {id(each.network): each.network for each in runs}.values():
            network.reset()
        found: list[ArmRecording] = []
        for at in range(0, len(runs), LOCKSTEP):
            found += execute(runs[at : at + LOCKSTEP])
        size = len(self.groups)
        return {arm.name: found[at * size : (at + 1) * size] for at, arm in enumerate(arms)}
