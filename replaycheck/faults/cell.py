"""The smallest cell that shows a fault: a small group by name, and the warm arm that is held against split-rounded."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.schema.arm import Answers, Arm, Cell, Compiler, Effect, Kernel, Padding, PoolDtype, Rollback
from replaycheck.schema.policy import CheckpointPolicy, Policy

__all__ = ["GRID_AND_TURN", "SmallCell"]

GRID_AND_TURN = CheckpointPolicy(every=64, turn_end=True)
"""States inside prompts on the grid and at each turn's end: every way to write one."""


@dataclass(frozen=True)
class SmallCell:
    """``group``: a name in :mod:`replaycheck.faults.workloads`. The rest: as in an arm."""

    group: str = "chat"
    policy: Policy = GRID_AND_TURN
    pool: PoolDtype = PoolDtype.BF16
    rollback: Rollback | None = None
    ring: int | None = None
    tensor_parallel: int = 1
    padding: Padding | None = None
    history: Kernel = Kernel.CHUNK
    tail: Kernel = Kernel.CHUNK
    recipe: str = "sglang"

    def arm(self, compiler: Compiler) -> Arm:
        """One side of the cell."""
        warm = compiler is Compiler.WARM
        return Arm(
            compiler=compiler,
            history=self.history,
            tail=self.tail,
            answers=Answers.DECODED if self.policy.keeps_answers else Answers.PREFILLED,
            pool=self.pool,
            policy=self.policy,
            recipe=self.recipe,
            rollback=self.rollback if compiler is not Compiler.COLD else None,
            ring=self.ring if self.rollback is Rollback.REPLAY and compiler is not Compiler.COLD else None,
            tensor_parallel=self.tensor_parallel,
            padding=self.padding if warm else None,
        )

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """The reference and the warm arm."""
        return self.arm(Compiler.SPLIT_ROUNDED), self.arm(Compiler.WARM)

    @property
    def exact(self) -> Cell:
        """What the gates judge."""
        reference, candidate = self.arms
        return Cell(effect=Effect.EXACT, reference=reference.name, candidate=candidate.name)

    @property
    def name(self) -> str:
        """``chat/grid64+turn/bf16`` and what else is unlike the usual."""
        parts = [self.group, *self.arm(Compiler.WARM).name.split("/")[3:]]
        if (self.history, self.tail) != (Kernel.CHUNK, Kernel.CHUNK):
            parts.insert(1, f"{self.history}-{self.tail}")
        if self.recipe != "sglang":
            parts.append(self.recipe)
        return "/".join(parts)
