"""What a worker process does: replay one group under all arms and compare them. One thread; more groups, more workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from replaycheck.compare.group import GroupComparison, compare_group
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours


@dataclass(frozen=True)
class Task:
    """One group for one worker; plain data that can be sent to another process."""

    group: Group
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    model: Path
    recipe: str
    faults: tuple[str, ...]


def one_thread() -> None:
    """A sum that is split over threads may have other bits for another batch; processes share the cores instead."""
    torch.set_num_threads(1)


@lru_cache(maxsize=2)
def network(model: Path, recipe: str, fault: str | None = None) -> Network:
    """The model under a recipe, as a recipe fault leaves it."""
    chosen = preset(recipe)
    spoiled = find_fault(fault).recipe if fault else None
    return Network(model, spoiled(chosen) if spoiled else chosen, ours(chosen, "cpu"))


def replay_group(task: Task) -> GroupComparison:
    """Compile, execute in lockstep, compare."""
    faults = [find_fault(name) for name in task.faults]
    runs = [_run(task, arm, faults) for arm in task.arms]
    for each in {id(run.network): run.network for run in runs}.values():
        each.arena = each.new_arena()
    recordings = execute(runs)
    return compare_group(
        task.group.group, task.arms, task.cells, {recording.arm: recording for recording in recordings}
    )


def _run(task: Task, arm: Arm, faults: Sequence[Fault]) -> ArmRun:
    schedule = compile_schedule(task.group, arm)
    for fault in faults:
        schedule = fault.on_schedule(schedule)
    recipe_faults = [fault.name for fault in faults if fault.recipe and arm.compiler in fault.enters]
    return ArmRun(schedule, network(task.model, task.recipe, recipe_faults[0] if recipe_faults else None))
