"""Tensor parallelism in one process: a network a rank, run in order from one row-parallel product to the next.

It stands where a ``Network`` stands: states go in and come out whole, so pools, plans and recordings are those of one rank,
and a stored slot is the slots of all ranks, joined. A rank sees its own heads only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from replaycheck.model.config import load_config
from replaycheck.schedule.parallel import ParallelPlan, geometry_of, plan_ranks
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import Recipe

from .network import Network, RowInput, RowOutput
from .parallel_shard import join_states, shard_of, split_state
from .parallel_sum import Pass, RowProduct, in_order, lockstep, partial_product
from .state import SequenceState


def plan_for(path: Path, degree: int) -> ParallelPlan:
    """The plans of a checkpoint's ranks.

    Raises:
        UsageError: the degree doesn't divide the model.
    """
    return plan_ranks(geometry_of(load_config(path)), degree)


class ParallelNetwork(Network):
    """A model over ranks of this process."""

    def __init__(
        self,
        path: Path,
        recipe: Recipe,
        kernels: Mapping[str, StateKernel],
        device: str = "cpu",
        plan: ParallelPlan | None = None,
    ) -> None:
        """plan: that of two ranks if None."""
        self.plan = plan or plan_for(path, 2)
        self.ranks = [Network(path, recipe, kernels, device, shard_of(rank)) for rank in self.plan.ranks]
        super().__init__(path, recipe, kernels, device)

    def reset(self) -> None:
        super().reset()
        for rank in self.ranks:
            rank.reset()

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        return [self._join(parts) for parts in zip(*lockstep(self.passes(rows), self._sum), strict=True)]

    def passes(self, rows: Sequence[RowInput]) -> list[Pass[list[RowOutput]]]:
        """The pass of each rank, on its part of the rows' states."""
        return [
            network.steps([replace(row, state=split_state(row.state, plan)) for row in rows])
            for network, plan in zip(self.ranks, self.plan.ranks, strict=True)
        ]

    def _sum(self, parts: Sequence[RowProduct]) -> Tensor:
        activation = self.recipe.activation
        return in_order([partial_product(part, activation) for part in parts], self.plan.order, activation)

    def _join(self, parts: Sequence[RowOutput]) -> RowOutput:
        """Logits are the same on all ranks."""
        taps = zip(*(part.taps for part in parts), strict=True)
        return RowOutput(
            parts[0].logits,
            self._joined([part.final for part in parts]),
            tuple(self._joined(states) for states in taps),
        )

    def _joined(self, states: Sequence[SequenceState]) -> SequenceState:
        return join_states(states, self.plan.ranks, self.empty_state())
