"""A noisy suite of 64 traces without a model, with something done to its warm arm, judged by the files that ship."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from replaycheck.assets import model_dir
from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.faults.cell import SmallCell
from replaycheck.floor.controls import with_changes
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.replay.worker import Work
from replaycheck.schema.arm import Arm, Compiler, PoolDtype
from replaycheck.schema.result import GateResult
from replaycheck.selftest.noisy import recording
from replaycheck.selftest.reduced import arms_and_cells, judge_groups, small_groups
from replaycheck.subjects.lab.kernels import KernelChoice

Turns = Callable[[Sequence[ScoredTurn]], Sequence[ScoredTurn]]


def arms() -> tuple[Arm, ...]:
    """Those of an fp32 pool, and the cold arm twice more: alone (F_num), and again (F_run)."""
    found = arms_and_cells(SmallCell(pool=PoolDtype.FP32))[0]
    cold = next(arm for arm in found if arm.compiler is Compiler.COLD)
    return (*found, with_changes(cold, repeat=1), with_changes(cold, repeat=2))


def judged(
    change: Turns = lambda turns: turns,
    files: Sequence[LoadedGates] = (),
    make: Callable[[Arm, int], ArmRecording] = recording,
) -> dict[str, GateResult]:
    """By name of the gate; of the files ``ci`` and ``operator`` the later one wins."""
    every = arms()
    cells = arms_and_cells(SmallCell(pool=PoolDtype.FP32))[1]
    work = Work(every, cells, model_dir(None), "sglang", (), KernelChoice())
    found = {arm.name: make(arm, 7) for arm in every}
    warm = next(arm.name for arm in every if arm.compiler is Compiler.WARM)
    found[warm] = replace(found[warm], turns=tuple(change(found[warm].turns)))
    results = judge_groups(
        files or (load_gates("operator"), load_gates("ci")),
        work,
        small_groups("short", [0]),
        {name: [one] for name, one in found.items()},
    )
    return {gate.name: gate for gate in results}


def other_tokens(turn: ScoredTurn, nats: float, positions: slice = slice(None)) -> ScoredTurn:
    """Something else is as likely as the forced token was, more by so many nats."""
    logits = turn.logits.copy()
    at = np.arange(len(logits))[positions]
    logits[at, (turn.tokens[at] + 1) % logits.shape[1]] += np.float32(nats)
    return replace(turn, logits=logits)
