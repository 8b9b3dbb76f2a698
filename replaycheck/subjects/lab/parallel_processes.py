"""Tensor parallelism over real processes: each has one rank's weights, states, pool and attention pages, nothing else.

They meet at the row-parallel products. Every rank gathers the others' parts with torch.distributed and adds them in the
plan's order itself, so all have the same bits, which are those of the ranks in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, distributed

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import EngineEnvironmentError
from replaycheck.processes import end_with_the_parent
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.parallel import ParallelPlan
from replaycheck.schema.arm import Arm
from replaycheck.schema.trace import Group
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import Recipe, preset

from .executor import ArmRun, execute
from .kernels import KernelChoice, lab_kernels
from .network import Network, RowInput, RowOutput
from .parallel import plan_for
from .parallel_shard import shard_of
from .parallel_sum import RowProduct, in_order, lockstep, partial_product

_PATIENCE = timedelta(seconds=120)
"""For a rank that never comes; starting a process with torch took up to 8 s on a busy machine with two cores."""


DEFAULT = KernelChoice()


@dataclass(frozen=True)
class RankTask:
    """What every rank does; plain data. backend: ``gloo``, or ``nccl`` with a GPU a rank."""

    group: Group
    arms: tuple[Arm, ...]
    model: Path
    recipe: str
    degree: int
    kernels: KernelChoice = DEFAULT
    backend: str = "gloo"


class RankNetwork(Network):
    """One rank of the default process group."""

    def __init__(
        self,
        path: Path,
        recipe: Recipe,
        kernels: Mapping[str, StateKernel],
        device: str,
        plan: ParallelPlan,
        rank: int,
    ) -> None:
        super().__init__(path, recipe, kernels, device, shard_of(plan.ranks[rank]))
        self._order = plan.order

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        return lockstep([self.steps(rows)], self._sum)[0]

    def _sum(self, parts: Sequence[RowProduct]) -> Tensor:
        """An all-reduce would add in an order of its own."""
        mine = partial_product(parts[0], self.recipe.activation).contiguous()
        gathered = [torch.empty_like(mine) for _ in self._order]
        distributed.all_gather(gathered, mine)
        return in_order(gathered, self._order, self.recipe.activation)


def run_ranks(task: RankTask) -> list[list[ArmRecording]]:
    """Run the arms on ``task.degree`` processes of this machine.

    Returns:
        Each rank's recordings; logits are the whole model's, restored states those of the rank's heads.

    Raises:
        UsageError: the degree doesn't divide the model. EngineEnvironmentError: too few GPUs, or a rank died.
    """
    plan = plan_for(task.model, task.degree)
    if task.backend == "nccl" and torch.cuda.device_count() < task.degree:
        raise EngineEnvironmentError(
            f"nccl wants a GPU a rank: {task.degree} ranks, {torch.cuda.device_count()} GPUs; use gloo on the CPU"
        )
    with (
        TemporaryDirectory(prefix="replaycheck-ranks-") as folder,
        ProcessPoolExecutor(task.degree, mp_context=get_context("spawn"), initializer=end_with_the_parent) as pool,
    ):
        ranks = [pool.submit(_run_rank, task, plan, rank, f"{folder}/meeting") for rank in range(task.degree)]
        try:
            return [rank.result() for rank in ranks]
        except BrokenProcessPool:
            raise EngineEnvironmentError(
                f"one of {task.degree} rank processes died, most likely for want of memory; use a smaller degree"
            ) from None


def _run_rank(task: RankTask, plan: ParallelPlan, rank: int, meeting: str) -> list[ArmRecording]:
    """In a process of its own."""
    torch.set_num_threads(1)
    if task.backend == "nccl":
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        task.backend, init_method=f"file://{meeting}", rank=rank, world_size=task.degree, timeout=_PATIENCE
    )
    try:
        recipe = preset(task.recipe)
        kernels = lab_kernels(task.kernels, recipe).kernels()
        network = RankNetwork(task.model, recipe, kernels, task.kernels.device, plan, rank)
        return execute([ArmRun(compile_schedule(task.group, arm), network) for arm in task.arms])
    finally:
        distributed.destroy_process_group()
