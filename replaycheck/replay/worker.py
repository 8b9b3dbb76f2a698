"""What a worker does: replay groups under all arms and compare them.

On the CPU a worker has one thread and one group; more groups, more workers. A GPU gets several groups in lockstep.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from replaycheck.compare.group import GroupComparison, compare_group
from replaycheck.compare.record import ArmRecording
from replaycheck.faults.fault import find_fault
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Activation, Arm, Cell
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.parallel import ParallelNetwork, plan_for
from replaycheck_kernels.recipe import preset

from .activation import activated_outside

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""


@dataclass(frozen=True)
class Task:
    """One group for one worker; plain data that can be sent to another process."""

    group: Group
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    model: Path
    recipe: str
    faults: tuple[str, ...]
    kernels: KernelChoice


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
    """The model under a recipe, as a recipe fault leaves it, over so many ranks; how its prefill activates."""
    chosen = preset(recipe)
    spoiled = find_fault(fault).recipe if fault else None
    used = spoiled(chosen) if spoiled else chosen
    found = lab_kernels(kernels, used).kernels()
    if activation is Activation.OUTSIDE:
        found |= {"chunk": activated_outside(kernels, used)}
    if degree == 1:
        return Network(model, used, found, kernels.device)
    return ParallelNetwork(model, used, found, kernels.device, plan_for(model, degree))


def replay_groups(tasks: Sequence[Task]) -> list[GroupComparison]:
    """Compile, execute in lockstep, compare."""
    runs = [[_run(task, arm) for arm in task.arms] for task in tasks]
    for each in {id(run.network): run.network for mine in runs for run in mine}.values():
        each.reset()
    recordings = iter(execute([run for mine in runs for run in mine]))
    return [_compare(task, [next(recordings) for _ in task.arms]) for task in tasks]


def _compare(task: Task, recordings: Sequence[ArmRecording]) -> GroupComparison:
    return compare_group(task.group.group, task.arms, task.cells, {each.arm: each for each in recordings})


def _run(task: Task, arm: Arm) -> ArmRun:
    faults = [find_fault(name) for name in task.faults]
    schedule = compile_schedule(task.group, arm)
    for fault in faults:
        schedule = fault.on_schedule(schedule)
    recipe_faults = [fault.name for fault in faults if fault.recipe and arm.compiler in fault.enters]
    spoiled = next(iter(recipe_faults), None)
    found = network(task.model, task.recipe, task.kernels, spoiled, arm.tensor_parallel, arm.activation)
    return ArmRun(schedule, found)
