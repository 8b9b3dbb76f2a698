"""What a seeded fault is (a function that spoils a plan, a recipe, weights, a kernel …), and how a name becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

import torch
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.model.config import ModelConfig
from replaycheck.names import all_of, did_you_mean
from replaycheck.schedule.parallel import ParallelPlan
from replaycheck.schedule.prefix.job import PrefixCache
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.schema.policy import Policy
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.weights import NetworkWeights
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.speculation.backend import Backend

from .cell import SmallCell
from .pools import casting
from .signature import Signature

ScheduleFault = Callable[[Schedule], Schedule]
RecipeFault = Callable[[Recipe], Recipe]
ProviderFault = Callable[[StateKernel], StateKernel]
WeightsFault = Callable[[ModelConfig, NetworkWeights], tuple[ModelConfig, NetworkWeights]]
CastFault = Callable[[Tensor, torch.dtype], Tensor]
PoolFault = Callable[[type[Pool]], type[Pool]]
ShardsFault = Callable[[ParallelPlan], ParallelPlan]
CacheFault = Callable[[Policy], PrefixCache]
SpeculationFault = Callable[[Backend], Backend]

WARM_ONLY = frozenset({Compiler.WARM})
KINDS = ("schedule", "recipe", "provider", "weights", "shards", "cast", "pool", "cache", "speculation")


@dataclass(frozen=True)
class Fault:
    """A fault and where it enters.

    Attributes:
        imitates: the real fault in one sentence.
        code: the finding that it should lead to.
        enters: compilers whose arms get it; never split, which is the reference.
        schedule: a plan into another plan. recipe: the arithmetic of our kernels in torch. provider: each kernel of a
            provider into one that errs. weights: configuration and weights as loaded. shards: what each rank loads. cast:
            the cast of a store. pool: the slots. cache: a prefix cache for a policy. speculation: the kernels that verify
            and commit windows. Exactly one of the nine is given.
        parameters: what the fault was made with, by name.
        cells: the smallest cells that show it, in which ``selftest`` plants it.
        silent_on: cells where it is planted and must change nothing that a gate sees.
        expected: what the first cell shows.
        claims: the checks that claim to catch it: ``exact/GATE``, ``kernels/PROPERTY``, ``state/ROW``, ``plan/simulator``,
            ``lab/refused``, ``extremes/NAME``.
        silent: why no logits show it, if none do.
        cpu_only: why it can't be planted on a GPU, if it can't.
    """

    name: str
    imitates: str
    code: str
    enters: frozenset[Compiler] = WARM_ONLY
    schedule: ScheduleFault | None = None
    recipe: RecipeFault | None = None
    cast: CastFault | None = None
    provider: ProviderFault | None = None
    weights: WeightsFault | None = None
    shards: ShardsFault | None = None
    pool: PoolFault | None = None
    cache: CacheFault | None = None
    speculation: SpeculationFault | None = None
    parameters: dict[str, int | float | str] = field(default_factory=dict, hash=False)
    cells: tuple[SmallCell, ...] = ()
    silent_on: tuple[SmallCell, ...] = ()
    expected: Signature | None = None
    claims: tuple[str, ...] = ()
    silent: str = ""
    cpu_only: str = ""

    def __post_init__(self) -> None:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise UsageError(f"fault {self.name!r} must spoil exactly one of {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        if self.enters & {Compiler.SPLIT, Compiler.SPLIT_ROUNDED}:
            raise UsageError(f"fault {self.name!r} may not enter split arms: they are the reference")

    @property
    def kind(self) -> str:
        """What it spoils."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def changes_network(self) -> bool:
        """Whether an arm that it enters needs a network of its own."""
        return self.kind in ("recipe", "provider", "weights", "shards")

    def on_schedule(self, schedule: Schedule) -> Schedule:
        """The schedule as the fault leaves it; unchanged for arms that it doesn't enter."""
        if self.schedule is None or schedule.arm.compiler not in self.enters:
            return schedule
        return self.schedule(schedule)

    def on_pool(self, pool: type[Pool], compiler: Compiler) -> type[Pool]:
        """The class of the slots of an arm."""
        if compiler not in self.enters:
            return pool
        if self.cast is not None:
            return casting(pool, self.cast)
        return self.pool(pool) if self.pool else pool


def find_fault(name: str) -> Fault:
    """A shipped fault by name, or anybody's by ``package.module:name``.

    Raises:
        UsageError: there is none; the text lists the shipped ones.
    """
    from .shipped import FAULTS

    if name in FAULTS:
        return FAULTS[name]
    if ":" not in name:
        others = all_of(sorted(FAULTS), "replaycheck selftest --list")
        raise UsageError(f"unknown fault {name!r}{did_you_mean(name, FAULTS)}; {others}, or give package.module:name")
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two: a relative or empty module
        raise UsageError(f"fault {name!r} can't be imported: {error}; give package.module:name of a Fault") from None
    if not isinstance(found, Fault):
        raise UsageError(f"{name!r} is a {type(found).__name__}, not a replaycheck.faults.fault.Fault")
    return found
