"""Is a large difference the position's or the state's? Perturb the restored state, and see what its log-probability does.

A perturbation multiplies each element of the restored recurrent state by 1 + u·r, with r uniform in [−1, 1] and u one
rounding to the pool's dtype. In an fp32 pool u is bf16's: what the chunk kernels round inside a call anyway, and large
enough to stand out of fp32 arithmetic. The draws of a turn run side by side, and share all that comes before the restore.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from replaycheck.compare.logits import log_softmax
from replaycheck.compare.record import ArmRecording
from replaycheck.errors import UsageError
from replaycheck.replay.worker import Work, lab_run, planned
from replaycheck.schedule.steps import Row
from replaycheck.schema.arm import Arm, PoolDtype
from replaycheck.schema.trace import Group
from replaycheck.stats.condition import DRAWS, condition_of
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import RowInput
from replaycheck.subjects.lab.pool import derive
from replaycheck.subjects.lab.state import SequenceState

__all__ = ["UNIT", "TurnCondition", "condition_of_turn"]

UNIT = {PoolDtype.FP32: 2.0**-8, PoolDtype.BF16: 2.0**-8, PoolDtype.FP16: 2.0**-11}
"""Largest relative error of one rounding: half a step of a number with 8 (bf16) or 11 (fp16) significant bits."""


@dataclass(frozen=True)
class TurnCondition:
    """positions, condition: [n] of a turn's scored positions; size: mean relative size of a perturbation."""

    positions: NDArray[np.int32]
    condition: NDArray[np.float64]
    size: float


def condition_of_turn(
    work: Work, group: Group, arm: Arm, key: tuple[str, int, int], draws: int = DRAWS, seed: int = 0
) -> TurnCondition:
    """The condition of each scored position of one turn under a warm arm.

    Args:
        key: trace, branch and turn, as positions are booked.

    Raises:
        UsageError: the arm restores nothing for that turn.
    """
    schedule = planned(work, group, arm)
    request = next(i for i, plan in enumerate(schedule.requests) if (plan.trace, plan.branch, plan.turn) == key)
    plain = lab_run(work, schedule)
    shaken = [_Shaken(plain, request, UNIT[arm.pool], draw, seed) for draw in range(draws)]
    plain.network.reset()
    reference, *others = execute([plain, *shaken])
    if not all(run.size for run in shaken):
        raise UsageError(f"arm {arm.name} restores no state for turn {key}; name a position after a restore")
    said = np.stack([_said(each, request) - _said(reference, request) for each in others])
    sizes = np.array([run.size for run in shaken])
    return TurnCondition(reference.turns[request].positions, condition_of(said, sizes), float(sizes.mean()))


def _said(recording: ArmRecording, request: int) -> NDArray[np.float64]:
    """[n] log-probabilities of a turn's tokens, nat."""
    turn = recording.turns[request]
    return np.asarray(log_softmax(turn.logits)[np.arange(len(turn.tokens)), turn.tokens])


class _Shaken(ArmRun):
    """The same run with one restored state perturbed. size: relative Frobenius norm of what was added, once it was."""

    def __init__(self, like: ArmRun, request: int, unit: float, draw: int, seed: int) -> None:
        super().__init__(like.schedule, like.network)
        self.size = 0.0
        self._request, self._unit = request, unit
        self._draws = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, draw]).generate_state(1)[0]))
        self._name = (seed, draw)

    def inputs(self, row: Row) -> RowInput:
        """The row's tokens and state; the state perturbed where the turn begins from a restore."""
        made = super().inputs(row)
        begins = row.restored is not None and row.request == self._request
        return replace(made, state=self._perturbed(made.state)) if begins else made

    def _perturbed(self, state: SequenceState) -> SequenceState:
        """The state in the dtype of the computation, each element moved by at most one rounding."""
        live = state.temporal.to(self.network.dtype)
        random = torch.rand(live.shape, generator=self._draws, dtype=torch.float64).to(live.device)
        moved = (live.double() * (1 + self._unit * (2 * random - 1))).to(live.dtype)
        size = torch.linalg.vector_norm(live.double())
        self.size = float(torch.linalg.vector_norm(moved.double() - live.double()) / size) if size else 0.0
        identity = derive(state.identity, "perturbed", self._name)
        return SequenceState(state.conv, moved, state.pages, identity, state.extra, state.ring)
