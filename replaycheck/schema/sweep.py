"""sweep.json: what each checkpoint interval and pool dtype costs and changes. No path or time in it; it judges nothing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .arm import Activation, Answers, PoolDtype
from .base import Record

__all__ = ["ActivationRow", "Difference", "Sweep", "SweepRow"]


class Difference(Record):
    """Two arms at the same scored positions. |Δ log p| in nat."""

    positions: int
    bits_differ: int
    p99: float | None = Field(description="null if no position was compared")
    max: float | None
    flips: int = Field(description="positions with another top-1 token")
    first_divergence: int | None = Field(description="tokens from the first restore to another top-1 token, the least")
    diverged: int = Field(description="branches with another top-1 token")
    branches: int


class SweepRow(Record):
    """One choice. Grid: cold vs split; state: split vs warm; total: cold vs warm, what a user sees."""

    interval: str = Field(description="tokens between checkpoints, from the start of a prompt's computation; or end")
    pool: PoolDtype
    activation: Activation
    hits: int = Field(description="restores that ran")
    recomputed: int = Field(description="tokens of prompts that were computed before and are computed again")
    states: int = Field(description="states stored; none is evicted")
    bytes_a_state: int = Field(description="recurrent state in the pool's dtype and convolution in bf16, all layers")
    bytes_stored: int
    grid: Difference
    state: Difference
    total: Difference
    state_error: float | None = Field(description="largest relative error of a restored state, over layers and heads")


class ActivationRow(Record):
    """Prefill activated outside against inside, both cold: what moving the activation alone does."""

    pool: PoolDtype
    difference: Difference


class Sweep(Record):
    """The whole of sweep.json."""

    schema_version: Literal[1] = 1
    suite: str
    suite_digest: str
    model: str
    model_digest: str
    recipe: str
    kernels: str
    device: str
    seed: int
    answers: Answers = Field(description="how earlier answers enter the state of a later turn")
    groups: int
    prompts: int = Field(description="tokens of all prompts")
    repeated: int = Field(
        description="of these, tokens that were computed before: all are computed again without a cache"
    )
    rows: tuple[SweepRow, ...]
    activations: tuple[ActivationRow, ...] = ()
    not_checked: tuple[str, ...] = Field(default=(), description="cells that the kernels can't do, with the reason")
