"""floor.json and the floor of a run: the noise that controls show, below which a difference says nothing.

Three floors (docs/floors.md). **F_run**: the same twice. **F_num**: another legitimate way to compute the same, which a user
accepts today without a prefix cache. **F_rnd**: one rounding of the state to the pool dtype at each store, which that dtype
must cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import Field

from .arm import Answers, Kernel, PoolDtype
from .base import Record
from .estimate import Estimate

__all__ = ["Condition", "Control", "FloorFile", "FloorKind", "FloorPlace", "Floors", "Measure"]


class FloorKind(StrEnum):
    """Which noise: running twice, another legitimate way to compute, one rounding a store."""

    RUN = "run"
    NUM = "num"
    RND = "rnd"


class Control(StrEnum):
    """The two ways to compute that a measure compares, none of which is wrong."""

    #: cold, twice, with the same companions: F_run
    REPEAT = "repeat"
    #: cold beside all other requests and alone: F_num
    BATCH = "batch"
    #: cold and split, the cuts of warm: F_num
    SPLIT = "split"
    #: cold, prompts whole and in pieces of a budget of tokens: F_num
    BUDGET = "budget"
    #: cold, prompts by the chunk and by the recurrent kernel, or answers one by one and as one extend: F_num
    KERNEL = "kernel"
    #: split and split-rounded: F_rnd
    ROUNDED = "rounded"

    @property
    def kind(self) -> FloorKind:
        """The floor that the control measures."""
        kinds = {Control.REPEAT: FloorKind.RUN, Control.ROUNDED: FloorKind.RND}
        return kinds.get(self, FloorKind.NUM)


class Measure(Record):
    """What one control shows, over the positions that both its arms scored. Log-probabilities and differences in nat.

    A trace is one number first (its mean, its rms); an interval is over clusters of traces.
    """

    control: Control
    reference: str = Field(description="arm, by name")
    candidate: str
    history: Kernel = Field(description="of the candidate, as the next four: which cells the floor is for")
    tail: Kernel
    answers: Answers
    pool: PoolDtype
    policy: str = Field(description="slug of the candidate's policy")
    traces: int
    positions: int
    bits_differ: int = Field(description="positions whose logits differ in any bit")
    bits_differ_bound: float = Field(description="upper 95 % bound of the rate of such positions; 3/N for none of N")
    not_finite: int = 0
    spread: Estimate = Field(description="s: a trace's root mean square of Δ log p; then the mean over clusters")
    spread_max: float | None = Field(description="of the trace with the largest")
    mean_abs_dlogp: Estimate = Field(description="a trace's mean of |Δ log p|; then the mean over clusters")
    worst_trace_abs_dlogp: Estimate = Field(description="largest of the trace means")
    window_abs_dlogp: Estimate = Field(
        description="as the mean, over the window after a restored state (64 tokens); null without any"
    )
    abs_dlogp: dict[str, float] = Field(description="p50, p90, p99, p999, max over positions; empty if none")
    flips: int = Field(description="positions with another top-1 token")
    flip_margin_max: float | None = Field(description="largest reference margin among the flips")
    flip_traces: Estimate = Field(description="share of traces with a flip, exact interval over traces")
    state_rel_error: Estimate | None = Field(
        default=None,
        description="rounded: relative error of one cast of a state to the pool dtype, mean over clusters; else null",
    )
    state_rel_error_max: float | None = Field(default=None, description="largest over restores, layers and heads")
    trace_spread: dict[str, float] = Field(
        default={}, description="s of each trace by name; empty for more than 1,024 traces"
    )

    @property
    def kind(self) -> FloorKind:
        return self.control.kind

    @property
    def exact_zero(self) -> bool:
        """Whether every position that has a number had the same bits: then mismatches are counted and none is allowed."""
        return self.positions > self.not_finite and self.bits_differ == 0


class Floors(Record):
    """What gates read: measured by the run itself, or given with ``--floor``."""

    origin: Literal["own", "given"]
    digest: str | None = Field(default=None, description="of the file that was given (BLAKE2b, 128 bits)")
    measures: tuple[Measure, ...]
    not_measured: tuple[str, ...] = Field(default=(), description="controls that weren't run, with the reason")

    @property
    def deterministic(self) -> bool | None:
        """Whether the same run gives the same bits (F_run = 0); None: not measured, or on no position with a number."""
        seen = [each for each in self.of(FloorKind.RUN) if each.positions > each.not_finite]
        return all(measure.exact_zero for measure in seen) if seen else None

    def of(self, kind: FloorKind) -> tuple[Measure, ...]:
        """Measures of one floor that saw a position, in their order."""
        return tuple(each for each in self.measures if each.kind is kind and each.positions)

    def num_for(self, history: Kernel, tail: Kernel, answers: Answers, policy: str) -> Measure | None:
        """F_num of cells with these kernels: cold against split with the same policy and answers, if that shows any noise;
        else the control with the largest spread among those with these kernels, or among all; None if there is none.

        Cuts on the chunk grid change nothing in fp32, and a floor of 0 would say that nothing else may differ either.
        """
        every = self.of(FloorKind.NUM)
        mine = [each for each in every if (each.history, each.tail) == (history, tail)]
        same = [
            each for each in mine if each.control is Control.SPLIT and (each.answers, each.policy) == (answers, policy)
        ]
        noisy = (_largest(each for each in some if not each.exact_zero) for some in (same, mine, every))
        return next((found for found in noisy if found), _largest(same or mine or every))

    def rnd_for(self, history: Kernel, tail: Kernel, answers: Answers, policy: str, pool: PoolDtype) -> Measure | None:
        """F_rnd of cells with these kernels and pool; that of the same policy and answers, if there is one."""
        mine = [each for each in self.of(FloorKind.RND) if each.pool is pool]
        mine = [each for each in mine if (each.history, each.tail) == (history, tail)]
        same = [each for each in mine if (each.answers, each.policy) == (answers, policy)]
        return _largest(same or mine)


def _largest(measures: Iterable[Measure]) -> Measure | None:
    return max(measures, key=lambda each: each.spread.value or 0.0, default=None)


class FloorPlace(Record):
    """Where a floor holds. A run elsewhere refuses it; ``suite`` is no part of this, and another one only warns."""

    subject: str
    model: str
    model_digest: str
    recipe: str
    kernels: str = Field(description="whose, with the package's version")
    device: str
    device_name: str | None = Field(description="of an accelerator or a processor; null where the system doesn't say")
    versions: dict[str, str | None] = Field(description="of packages that change bits; null: not installed")
    variables: dict[str, str] = Field(default={}, description="environment variables that change numerics")


class FloorFile(Record):
    """What ``replaycheck floor --out FILE.json`` writes. No path or time in it."""

    schema_version: Literal[1] = 1
    place: FloorPlace
    suite: str
    suite_digest: str
    seed: int
    groups: int
    floors: Floors


class Condition(Record):
    """How much a position's log-probability moves with the restored state it came from."""

    cell: str
    group: str
    trace: str
    branch: int
    turn: int
    position: int
    dlogp: float = Field(description="candidate minus reference, nat: what is to be explained")
    cuts: float | None = Field(description="of it, what cold against split shows here; null without a split arm")
    condition: float = Field(description="nat per unit of relative perturbation of the state: rms over the draws")
    size: float = Field(
        description="relative size of one perturbation, a rounding of each element; mean over the draws"
    )
    draws: int
    expected: float = Field(description="condition times size, nat: what one rounding of the state does here")
    explained: float = Field(
        description="two-sided p of dlogp less cuts under an error of the state of that size (Student's t)"
    )
    kind: Literal["small", "cuts", "ill-conditioned", "suspicious"] = Field(
        description="small: no larger than the floor. cuts: larger, mostly by other cuts. ill-conditioned: one rounding of "
        "the state explains the rest. suspicious: it doesn't"
    )
