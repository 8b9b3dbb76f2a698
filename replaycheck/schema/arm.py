"""Arms and cells: what is run, and which two runs are compared.

An arm fixes a compiler, the kernels of history, tail and answer, how earlier answers entered the state, the pool dtype,
the checkpoint policy and the recipe. A cell names two arms and the effect that their difference shows.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from .base import Record

CHUNK = 64
"""Tokens per chunk of the chunk kernels; the grid of an extend is start + 64·i (DESIGN §2)."""


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


class CheckpointPolicy(Record):
    """Where a schedule stores checkpoints. ``every`` counts from the start of an extend and sits on the grid."""

    every: int | None = Field(default=None, ge=CHUNK, description="tokens between checkpoints, a multiple of the chunk")
    prompt_end: bool = False
    turn_end: bool = False

    @model_validator(mode="after")
    def _check(self) -> CheckpointPolicy:
        if self.every is not None and self.every % CHUNK:
            raise ValueError(f"every = {self.every} isn't a multiple of the chunk of {CHUNK} tokens; give a multiple")
        if self.every is None and not (self.prompt_end or self.turn_end):
            raise ValueError("a policy needs every, prompt_end or turn_end; without one nothing is ever restored")
        return self

    @property
    def slug(self) -> str:
        parts = [f"grid{self.every}"] if self.every else []
        parts += ["prompt"] if self.prompt_end else []
        parts += ["turn"] if self.turn_end else []
        return "+".join(parts)


class Arm(Record):
    """One way to run a suite."""

    compiler: Compiler
    history: Kernel
    tail: Kernel
    answer: Kernel = Kernel.RECURRENT
    answers: Answers
    pool: PoolDtype
    policy: CheckpointPolicy
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
