"""Clean variants in their cells: no check may fail, and what they change is measured."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from replaycheck.compare.group import compare_group
from replaycheck.compare.record import ArmRecording
from replaycheck.faults.clean import Control
from replaycheck.faults.workloads import workload
from replaycheck.replay.worker import network
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.reordered import evaluated

from .lab import Lab

__all__ = ["ControlSeen", "run_control"]


@dataclass(frozen=True)
class ControlSeen:
    """failed: checks that failed. differ, positions: scored positions with other bits than the usual.

    ``largest``: difference of a logit.
    """

    failed: tuple[str, ...]
    differ: int
    positions: int
    largest: float


def run_control(lab: Lab, control: Control) -> ControlSeen:
    """Both arms under the change, judged; and the warm arm beside what it is compared with."""
    cell = control.cell
    found = _network(lab, control)
    with evaluated(control.sums) if control.sums else nullcontext():
        recordings = {arm.name: _execute(lab, control, arm, found) for arm in cell.arms}
    compared = compare_group(cell.group, cell.arms, (cell.exact,), recordings)
    gates, _ = lab.judged(cell, compared)
    failed = [f"{gate.file}/{gate.name}" for gate in gates if gate.verdict == "fail"]
    other, compiler = control.against or (cell, cell.arms[1].compiler)
    usual = lab.clean(other, compiler)
    differ, positions, largest = _between(recordings[cell.arms[1].name], usual)
    if control.changes and not differ:
        failed.append("control/changes-nothing")
    return ControlSeen(tuple(failed), differ, positions, largest)


def _network(lab: Lab, control: Control) -> Network:
    """The cell's network; one of its own where the control changes it."""
    cell, choice = control.cell, KernelChoice(device=lab.device)
    claimed = preset(cell.recipe)
    recipe = control.recipe(claimed)
    if recipe == claimed and control.kernels is None:
        return network(lab.model, cell.recipe, choice, None, cell.tensor_parallel)
    kernels = lab_kernels(choice, recipe).kernels() | (control.kernels or {})
    return Network(lab.model, recipe, kernels, lab.device)


def _execute(lab: Lab, control: Control, arm: Arm, found: Network) -> ArmRecording:
    found.reset()
    (recording,) = execute([ArmRun(compile_schedule(workload(control.cell.group, lab.seed), arm), found)])
    return recording


def _between(a: ArmRecording, b: ArmRecording) -> tuple[int, int, float]:
    """Scored positions with other bits, all of them, and the largest difference of a logit."""
    turns = {turn.key: turn for turn in b.turns}
    differ, positions, largest = 0, 0, 0.0
    for turn in a.turns:
        other = turns[turn.key].logits
        differ += int((turn.logits.view(np.uint32) != other.view(np.uint32)).any(axis=1).sum())
        positions += len(turn.positions)
        largest = max(largest, float(np.abs(turn.logits - other).max()))
    return differ, positions, largest
