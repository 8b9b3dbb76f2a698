"""Arms and cells: what is run, and which two runs are compared.

An arm fixes a compiler, the kernels of history, tail and answer, how earlier answers entered the state, the pool dtype,
the checkpoint policy, the recipe and how a speculation window is undone. A cell names two arms and the effect that their
difference shows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from .base import Record
from .policy import CHUNK, CheckpointPolicy, Policy

__all__ = [
    "CHUNK",
    "Activation",
    "Answers",
    "Arm",
    "Cell",
    "CheckpointPolicy",
    "Compiler",
    "Effect",
    "Experiment",
    "Kernel",
    "Padding",
    "PoolDtype",
    "Rollback",
    "Side",
]

#: forced: every arm is given the trace's answers. free: every arm continues its own, greedily.
Experiment = Literal["forced", "free"]


class Compiler(StrEnum):
    """How a group becomes a schedule: see docs/concepts.md."""

    COLD = "cold"
    SPLIT = "split"
    SPLIT_ROUNDED = "split-rounded"
    WARM = "warm"


class Kernel(StrEnum):
    """The form of the state kernel: many tokens at once, or token by token."""

    CHUNK = "chunk"
    RECURRENT = "recurrent"


class PoolDtype(StrEnum):
    """In which dtype states are stored."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Answers(StrEnum):
    """How an earlier answer entered the state of a later turn."""

    DECODED = "decoded"
    PREFILLED = "prefilled"


class Rollback(StrEnum):
    """How the state is put back after a verify (names as in ``replaycheck_kernels.speculation.methods``)."""

    #: (a) a slot for every position; rolling back is choosing one (vLLM)
    SLOTS = "slots"
    #: (b) the state at the verification point is copied back (SGLang)
    COPY = "copy"
    #: (c) RecoverSSM: rebuilt from one checkpoint and records (vLLM)
    RECOVER = "recover"
    #: (d) ReplaySSM: raw inputs in a ring, run again (SGLang)
    REPLAY = "replay"


class Activation(StrEnum):
    """Where prefill activates beta and the decay. Decoding always does it inside its kernel, in fp32."""

    #: inside the chunk kernel, too
    INSIDE = "inside"
    #: before the call; the kernel reads values that were stored as activations
    OUTSIDE = "outside"


class Side(StrEnum):
    """On which side of a row's tokens its padding lies."""

    LEFT = "left"
    RIGHT = "right"


class Padding(Record):
    """Rows of a pass are padded to one width, as a batch of fixed shape needs it. Padding changes no bit."""

    side: Side
    columns: int = Field(default=16, ge=1, description="the width is a multiple of so many columns")
    rows: int = Field(default=1, ge=1, description="a pass is padded to a multiple of so many rows")

    @property
    def slug(self) -> str:
        return f"{self.side}{self.columns}" + (f"x{self.rows}" if self.rows > 1 else "")


class Effect(StrEnum):
    """What the difference of a cell's two arms shows (docs/concepts.md, Cold, split, split-rounded, warm)."""

    #: cold vs split: other cuts, other rounding; legitimate
    GRID = "grid"
    #: split vs warm: what storing and restoring did
    STATE = "state"
    #: split-rounded vs warm: must be zero, bit for bit
    EXACT = "exact"
    #: cold vs warm: what a user sees when the cache is switched on
    TOTAL = "total"
    #: one rank vs several, both warm: the order of the sums over ranks; legitimate
    PARALLEL = "parallel"
    #: prefill that activates beta and decay inside its kernel vs outside, both cold; legitimate, and another model
    ACTIVATION = "activation"
    #: one request at a time vs several in flight at once, both warm: what requests do to each other's states
    TOGETHER = "together"


class Arm(Record):
    """One way to run a suite.

    With ``rollback`` answers are decoded in the speculation windows of the trace; without it token by token.
    """

    compiler: Compiler
    history: Kernel
    tail: Kernel
    answer: Kernel = Kernel.RECURRENT
    answers: Answers
    pool: PoolDtype
    policy: Policy
    recipe: str
    repeat: int = 0
    rollback: Rollback | None = None
    ring: int | None = Field(default=None, ge=1, description="tokens in the ring of rollback replay")
    ring_lag: bool = Field(default=False, description="the ring is folded when it is full or its state is used")
    tensor_parallel: int = Field(default=1, ge=1, description="ranks that the heads are split over")
    activation: Activation = Activation.INSIDE
    padding: Padding | None = Field(default=None, description="of a warm arm: its passes are padded")

    @model_validator(mode="after")
    def _check(self) -> Arm:
        if self.padding is not None and self.compiler is not Compiler.WARM:
            raise ValueError(f"padding is of a warm arm, which is held against {self.compiler} without; leave it out")
        if self.ring_lag and (self.rollback is not Rollback.REPLAY or self.ring is None):
            raise ValueError("ring_lag is of rollback replay with a ring of so many tokens; give both or leave it out")
        if self.ring_lag and self.tensor_parallel > 1:
            raise ValueError("a lagging ring isn't sharded; leave ring_lag or tensor_parallel out")
        if self.rollback is None:
            return self
        if self.compiler is Compiler.COLD:
            raise ValueError("a cold arm decodes token by token; leave rollback out")
        if self.answer is not Kernel.RECURRENT:
            raise ValueError("a window is verified by the recurrent kernel; leave rollback or answer out")
        return self

    @property
    def name(self) -> str:
        """A stable name, unique within a run, e.g. ``warm/chunk-chunk/decoded/grid64+turn/bf16``."""
        parts = [self.compiler, f"{self.history}-{self.tail}", self.answers, self.policy.slug, self.pool]
        if self.answer is not Kernel.RECURRENT:
            parts.append(f"answer-{self.answer}")
        if self.rollback:
            parts.append(f"spec-{self.rollback}" + (f"-ring{self.ring}" if self.ring else ""))
            parts[-1] += "-lag" if self.ring_lag else ""
        if self.tensor_parallel > 1:
            parts.append(f"tp{self.tensor_parallel}")
        if self.activation is not Activation.INSIDE:
            parts.append(f"activated-{self.activation}")
        if self.padding:
            parts.append(f"pad-{self.padding.slug}")
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
