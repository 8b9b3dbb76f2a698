"""Checkpoint policies: where states are stored, what a prompt hits, how prefill is cut. A suite names one by ``cache``.

``reference`` (the default) stores what it is told to and finds the longest stored prefix. The others do what an engine
does, with the engine's own granularity, so that its cuts, hits and slots can be replayed.
"""

from __future__ import annotations

from math import lcm
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from .base import Record

CHUNK = 64
"""Tokens per chunk of the chunk kernels; the grid of an extend is start + 64·i (docs/concepts.md, The grid)."""

_LATE = "the end of an answer is seen a step late, when its working state is a token further"


class PolicyOptions(Record):
    """What every policy has."""

    capacity: int | None = Field(default=None, ge=1, description="stored states that fit; null: no limit")
    budget: int | None = Field(default=None, ge=1, description="tokens of one forward pass; null: whole prompts")
    pipeline: int = Field(
        default=1,
        ge=1,
        le=2,
        description="steps in flight; 2: a step is launched before the last one's results are seen",
    )

    def _slug(self, *parts: str) -> str:
        limits = [f"cap{self.capacity}"] if self.capacity else []
        limits += [f"budget{self.budget}"] if self.budget else []
        limits += [f"pipeline{self.pipeline}"] if self.pipeline > 1 else []
        return "+".join([*parts, *limits])


class CheckpointPolicy(PolicyOptions):
    """The reference. ``every`` counts from the start of an extend and sits on the grid."""

    cache: Literal["reference"] = "reference"
    every: int | None = Field(default=None, ge=CHUNK, description="tokens between checkpoints, a multiple of the chunk")
    prompt_end: bool = False
    turn_end: bool = False

    @model_validator(mode="after")
    def _check(self) -> CheckpointPolicy:
        if self.every is not None and self.every % CHUNK:
            raise ValueError(f"every = {self.every} isn't a multiple of the chunk of {CHUNK} tokens; give a multiple")
        if self.every is None and not (self.prompt_end or self.turn_end):
            raise ValueError("a policy needs every, prompt_end or turn_end; without one nothing is ever restored")
        if self.turn_end and self.pipeline > 1:
            raise ValueError(f"pipeline = {self.pipeline} with turn_end: {_LATE}; leave one of them out")
        return self

    @property
    def slug(self) -> str:
        parts = [f"grid{self.every}"] if self.every else []
        parts += ["prompt"] if self.prompt_end else []
        parts += ["turn"] if self.turn_end else []
        return self._slug(*parts)

    @property
    def keeps_answers(self) -> bool:
        """Whether a later turn can continue an answer as it was decoded."""
        return self.turn_end

    @property
    def interior(self) -> bool:
        """Whether states inside an extend are asked of the kernel."""
        return self.every is not None


class SglangPolicy(PolicyOptions):
    """SGLang's radix cache. ``no-buffer`` stores exact ends; ``extra-buffer`` stores on grids, by a double buffer."""

    cache: Literal["sglang-no-buffer", "sglang-extra-buffer"]
    page: int = Field(default=1, ge=1, description="tokens of a page of the attention cache; keys are cut to pages")
    track_interval: int = Field(default=256, ge=1, description="tokens between snapshots while decoding")

    @model_validator(mode="after")
    def _check(self) -> SglangPolicy:
        if self.cache == "sglang-no-buffer" and self.page != 1:
            raise ValueError(
                f"page = {self.page}: sglang-no-buffer stores exact ends, so its page is 1; leave page out"
            )
        if self.cache == "sglang-no-buffer" and self.pipeline > 1:
            raise ValueError(
                f"pipeline = {self.pipeline}: sglang-no-buffer gives the working slot away at the end, and {_LATE} "
                "(SGLang turns overlap off); leave pipeline out or take sglang-extra-buffer"
            )
        if CHUNK % self.page and self.page % CHUNK:
            raise ValueError(
                f"page = {self.page} neither divides the chunk of {CHUNK} tokens nor is a multiple of it; "
                "a snapshot on a page would lie inside a chunk; give one of the two"
            )
        if self.track_interval % self.page:
            raise ValueError(
                f"track_interval = {self.track_interval} isn't a multiple of the page of {self.page} tokens; give one"
            )
        if self.budget is not None and self.budget < self.page:
            raise ValueError(
                f"budget = {self.budget} is less than the page of {self.page} tokens, and prefill is cut to whole pages; "
                "give at least a page"
            )
        return self

    @property
    def double_buffer(self) -> bool:
        return self.cache == "sglang-extra-buffer"

    @property
    def checkpoint_grid(self) -> int:
        """Grid of prefill snapshots, from the start of an extend: lcm(chunk, page)."""
        return lcm(max(CHUNK, self.page), self.page)

    @property
    def track_grid(self) -> int:
        """Absolute grid of decode snapshots: lcm(checkpoint grid, interval)."""
        return lcm(self.checkpoint_grid, self.track_interval)

    @property
    def slug(self) -> str:
        parts: list[str] = [self.cache]
        if self.double_buffer:
            parts += [f"page{self.page}"] if self.page != 1 else []
            parts += [f"track{self.track_interval}"]
        return self._slug(*parts)

    @property
    def keeps_answers(self) -> bool:
        return True

    @property
    def interior(self) -> bool:
        return self.double_buffer


class VllmPolicy(PolicyOptions):
    """vLLM's block cache. ``none`` caches nothing; in ``align`` block p holds the state after (p + 1)·block tokens.

    ``tail`` is the hash block of partial tails: the last multiple of it before the prompt's last token is stored, too.
    ``retain`` says which block ends keep their state: those that a resent prompt reaches, every so many tokens as well,
    or all.
    """

    cache: Literal["vllm-none", "vllm-align"]
    block: int = Field(default=256, ge=1, description="tokens of a state block")
    tail: int | None = Field(default=None, ge=1, description="tokens of a hash block; null: no partial tails")
    retain: Literal["reachable", "all"] | Annotated[int, Field(ge=1)] = "reachable"

    @model_validator(mode="after")
    def _check(self) -> VllmPolicy:
        if self.tail is not None and (self.block % self.tail or self.tail == self.block):
            raise ValueError(
                f"tail = {self.tail} isn't a proper divisor of the block of {self.block} tokens; give one or leave it out"
            )
        if isinstance(self.retain, int) and self.retain % self.block:
            raise ValueError(
                f"retain = {self.retain} isn't a multiple of the block of {self.block} tokens; "
                "give one, 'reachable' or 'all'"
            )
        return self

    @property
    def align(self) -> bool:
        return self.cache == "vllm-align"

    @property
    def slug(self) -> str:
        parts: list[str] = [self.cache]
        if self.align:
            parts += [f"block{self.block}"]
            parts += [f"tail{self.tail}"] if self.tail else []
            parts += [f"retain-{self.retain}"] if self.retain != "reachable" else []
        return self._slug(*parts)

    @property
    def keeps_answers(self) -> bool:
        """Blocks that decoding fills are kept unless retention is sparse."""
        return self.align and self.retain != "reachable"

    @property
    def interior(self) -> bool:
        """Extends are cut at block ends, so every stored state is a final one."""
        return False


class ServerPolicy(PolicyOptions):
    """A server's own cache, of which nothing is known: hits are what it reports, and none is predicted."""

    cache: Literal["server"]

    @property
    def slug(self) -> str:
        return self._slug(self.cache)

    @property
    def keeps_answers(self) -> bool:
        return False

    @property
    def interior(self) -> bool:
        return False


def _named(value: Any) -> str:
    """The record that a policy is of: ``cache`` up to its first dash."""
    cache = value.get("cache", "reference") if isinstance(value, dict) else getattr(value, "cache", "reference")
    return str(cache).partition("-")[0]


Policy = Annotated[
    Annotated[CheckpointPolicy, Tag("reference")]
    | Annotated[SglangPolicy, Tag("sglang")]
    | Annotated[VllmPolicy, Tag("vllm")]
    | Annotated[ServerPolicy, Tag("server")],
    Discriminator(
        _named,
        custom_error_type="unknown_cache",
        custom_error_message="cache is none of reference, sglang-no-buffer, sglang-extra-buffer, vllm-none, vllm-align, "
        "server; name one of these",
    ),
]
