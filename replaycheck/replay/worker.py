"""What a worker does: replay groups under all arms and compare them.

On the CPU a worker has one thread and one group; more groups, more workers. A GPU gets several groups in lockstep.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import process_time

import torch

from replaycheck.audit.labels import AuditMode
from replaycheck.compare.group import GroupComparison, compare_group
from replaycheck.compare.record import ArmRecording, join
from replaycheck.faults.fault import find_fault
from replaycheck.schedule.compile import compile_arms, compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Activation, Arm, Cell, Experiment
from replaycheck.schema.group import GroupRecord
from replaycheck.schema.trace import Group
from replaycheck.subjects.choose import LAB, NO_OPTIONS, find_subject
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.parallel import ParallelNetwork, plan_for
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.protocol import SubjectOptions, Translates
from replaycheck_kernels.recipe import preset

from .activation import activated_outside
from .free import runs_freely
from .parts import encode

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""


@dataclass(frozen=True)
class Work:
    """What a worker does with each group; plain data that can be sent to another process.

    Attributes:
        subject: the lab, or a name that :func:`replaycheck.subjects.choose.find_subject` knows. The lab alone reads
            model, recipe and kernels. options: of another subject.
        experiments: forced, and free if each arm is to continue its own answers as well.
    """

    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    model: Path
    recipe: str
    faults: tuple[str, ...]
    kernels: KernelChoice
    audit: AuditMode = AuditMode.RECORD
    subject: str = LAB
    options: SubjectOptions = NO_OPTIONS
    experiments: tuple[Experiment, ...] = ("forced",)


@dataclass(frozen=True)
class Job:
    """The groups of one part, as lines of a trace file."""

    name: str
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class Done:
    """A finished part: its files, and CPU seconds by what they were spent on."""

    record: GroupRecord
    tables: Mapping[str, bytes]
    seconds: Mapping[str, float]


def one_thread() -> None:
    """A sum that is split over threads may have other bits for another batch; processes share the cores instead."""
    torch.set_num_threads(1)


def keep_memory() -> None:
    """Ask glibc to reuse freed blocks of any size: by default each tensor of a pass is mapped, zeroed and unmapped again.

    Measured: 13 % of a group's time (agent_tool_loop, 90 arms: 37.4 s and 32.7 s in one run, with cProfile). Another libc
    goes on as it was.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


@lru_cache(maxsize=4)
def network(
    model: Path,
    recipe: str,
    kernels: KernelChoice,
    fault: str | None = None,
    degree: int = 1,
    activation: Activation = Activation.INSIDE,
) -> Network:
    """The model under a recipe, as a fault of the network leaves it, over so many ranks; how its prefill activates.

    A fault of weights is planted in the whole model, before ranks take their parts.
    """
    chosen = preset(recipe)
    spoiled = find_fault(fault) if fault else None
    used = spoiled.recipe(chosen) if spoiled and spoiled.recipe else chosen
    found = lab_kernels(kernels, used).kernels()
    if activation is Activation.OUTSIDE:
        found |= {"chunk": activated_outside(kernels, used)}
    if spoiled and spoiled.provider:
        found = {form: spoiled.provider(kernel) for form, kernel in found.items()}
    if degree == 1:
        return Network(model, used, found, kernels.device, spoiled.weights if spoiled else None)
    plan = plan_for(model, degree)
    if spoiled and spoiled.shards:
        plan = spoiled.shards(plan)
    return ParallelNetwork(model, used, found, kernels.device, plan)


def replay_groups(work: Work, groups: Sequence[Group]) -> list[GroupComparison]:
    """Compile, execute in lockstep, compare each group."""
    found = _replayed(work, groups, Clock())
    return [_compare(work, group.group, [mine]) for group, mine in zip(groups, found, strict=True)]


def replay_jobs(work: Work, jobs: Sequence[Job]) -> list[Done]:
    """The parts of ``jobs``. On a CPU the lab takes one group after the other; else all groups run together."""
    clock = Clock()
    groups = [[Group.model_validate_json(line, strict=True) for line in job.lines] for job in jobs]
    clock.lap("compile")
    flat = [group for mine in groups for group in mine]
    if work.subject == LAB and work.kernels.device == "cpu":
        found = [_replayed(work, [group], clock)[0] for group in flat]
    else:
        found = _replayed(work, flat, clock)
    recorded = iter(found)
    parts = []
    for job, mine in zip(jobs, groups, strict=True):
        compared = _compare(work, job.name, [next(recorded) for _ in mine])
        clock.lap("compare")
        if len(mine) > 1:
            names = tuple(group.group for group in mine)
            compared = replace(compared, record=compared.record.model_copy(update={"groups": names}))
        parts.append(Done(compared.record, {name: encode(rows) for name, rows in compared.tables.items()}, {}))
        clock.lap("store")
    return [replace(part, seconds=clock.seconds if part is parts[0] else {}) for part in parts]


@dataclass(frozen=True)
class _Replayed:
    """Recordings of a group, by arm; free: of those that run freely, if they do."""

    forced: Sequence[ArmRecording]
    free: Sequence[ArmRecording] = ()


def _compare(work: Work, name: str, groups: Sequence[_Replayed]) -> GroupComparison:
    """``groups``: those of one part."""
    forced = _joined([mine.forced for mine in groups])
    return compare_group(name, work.arms, work.cells, forced, _joined([mine.free for mine in groups]))


def _joined(recordings: Sequence[Sequence[ArmRecording]]) -> dict[str, ArmRecording]:
    """By arm, from recordings by group and then by arm."""
    return {mine[0].arm: join(mine) for mine in zip(*recordings, strict=True)}


def _replayed(work: Work, groups: Sequence[Group], clock: Clock) -> list[_Replayed]:
    """By group."""
    forced = _recordings(work, groups, clock)
    if "free" not in work.experiments:
        return [_Replayed(mine) for mine in forced]
    free = _recordings(replace(work, arms=runs_freely(work.arms)), groups, clock, "free")
    return [_Replayed(*both) for both in zip(forced, free, strict=True)]


def _recordings(
    work: Work, groups: Sequence[Group], clock: Clock, experiment: Experiment = "forced"
) -> list[list[ArmRecording]]:
    """By group, then by arm. Repeats of arms run by themselves, each from nothing."""
    schedules = [[replace(each, experiment=experiment) for each in _compiled(work, group)] for group in groups]
    flat = [schedule for mine in schedules for schedule in mine]
    clock.lap("compile")
    found: dict[int, ArmRecording] = {}
    for repeat in sorted({schedule.arm.repeat for schedule in flat}):
        mine = [index for index, schedule in enumerate(flat) if schedule.arm.repeat == repeat]
        found |= dict(zip(mine, _run(work, [flat[index] for index in mine]), strict=True))
    clock.lap("subject")
    recorded = iter(sorted(found))
    return [[found[next(recorded)] for _ in mine] for mine in schedules]


def _compiled(work: Work, group: Group) -> list[Schedule]:
    """A schedule an arm, in the subject's own token ids if it has some."""
    subject = None if work.subject == LAB else find_subject(work.subject, work.options)
    if not isinstance(subject, Translates):
        return [_spoiled(work, schedule) for schedule in compile_arms(group, work.arms)]
    theirs = subject.translate(group)
    return [_spoiled(work, schedule).begun_with(theirs.bos) for schedule in compile_arms(theirs.group, work.arms)]


def _run(work: Work, schedules: Sequence[Schedule]) -> list[ArmRecording]:
    """Run schedules together."""
    if work.subject != LAB:
        return find_subject(work.subject, work.options).replay(schedules)
    runs = [lab_run(work, schedule) for schedule in schedules]
    for each in {id(run.network): run.network for run in runs}.values():
        each.reset()
    return execute(runs)


def planned(work: Work, group: Group, arm: Arm) -> Schedule:
    """The schedule of a group under an arm, as the work's faults leave it."""
    return _spoiled(work, compile_schedule(group, arm))


def _spoiled(work: Work, schedule: Schedule) -> Schedule:
    for name in work.faults:
        schedule = find_fault(name).on_schedule(schedule)
    return schedule


def lab_run(work: Work, schedule: Schedule) -> ArmRun:
    """A schedule, ready for the executor, on the network and pool that the work's faults leave."""
    arm = schedule.arm
    faults = [find_fault(name) for name in work.faults]
    of_networks = [name for name, fault in zip(work.faults, faults, strict=True) if fault.changes_network]
    spoiled = next((name for name in of_networks if arm.compiler in find_fault(name).enters), None)
    found = network(work.model, work.recipe, work.kernels, spoiled, arm.tensor_parallel, arm.activation)
    slots = Pool
    for fault in faults:
        slots = fault.on_pool(slots, arm.compiler)
    return ArmRun(schedule, found, work.audit, slots)


class Clock:
    """CPU seconds of this process by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = process_time()

    def lap(self, what: str) -> None:
        """Book the time since the last lap."""
        now = process_time()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self._last
        self._last = now
