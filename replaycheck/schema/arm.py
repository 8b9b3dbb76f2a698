"""Arms and cells: what is run, and which two runs are compared.

An arm fixes a compiler, the kernels of history, tail and answer, how earlier answers entered the state, the pool dtype,
the checkpoint policy and the recipe. A cell names two arms and the effect that their difference shows.
"""

from __future__ import annotations

from enum import StrEnum

from .base import Record
from .policy import CHUNK, CheckpointPolicy, Policy

__all__ = [
    "CHUNK",
    "Answers",
    "Arm",
    "Cell",
    "CheckpointPolicy",
    "Compiler",
    "Effect",
    "Kernel",
    "PoolDtype",
]


class Compiler(StrEnum):
    COLD = "cold"
    SPLIT = "split"
    SPLIT_ROUNDED = "split-rounded"
    WARM = "warm"


class Kernel(StrEnum):
    CHUNK = "chunk"
    RECURRENT = "recurrent"


class PoolDtype(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Answers(StrEnum):
    """How an earlier answer entered the state of a later turn."""

    DECODED = "decoded"
    PREFILLED = "prefilled"


class Effect(StrEnum):
    """What the difference of a cell's two arms shows (DESIGN §2, Why split)."""

    #: cold vs split: other cuts, other rounding; legitimate
    GRID = "grid"
    #: split vs warm: what storing and restoring did
    STATE = "state"
    #: split-rounded vs warm: must be zero, bit for bit
    EXACT = "exact"
    #: cold vs warm: what a user sees when the cache is switched on
    TOTAL = "total"


class Arm(Record):
    """One way to run a suite."""

    compiler: Compiler
    history: Kernel
    tail: Kernel
    answer: Kernel = Kernel.RECURRENT
    answers: Answers
    pool: PoolDtype
    policy: Policy
    recipe: str
    repeat: int = 0

    @property
    def name(self) -> str:
        """A stable name, unique within a run, e.g. ``warm/chunk-chunk/decoded/grid64+turn/bf16``."""
        parts = [self.compiler, f"{self.history}-{self.tail}", self.answers, self.policy.slug, self.pool]
        if self.answer is not Kernel.RECURRENT:
            parts.append(f"answer-{self.answer}")
        if self.repeat:
            parts.append(f"repeat{self.repeat}")
        return "/".join(parts)


class Cell(Record):
    """A pair of arms, by name."""

    effect: Effect
    reference: str
    candidate: str

    @property
    def name(self) -> str:
        """``state/chunk-chunk/decoded/grid64+turn/bf16``: the effect, then what the candidate arm is."""
        return "/".join([str(self.effect), *self.candidate.split("/")[1:]])
