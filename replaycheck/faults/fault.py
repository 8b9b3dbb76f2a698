"""What a seeded fault is, and how a name becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from replaycheck.errors import UsageError, choices
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler
from replaycheck_kernels.recipe import Recipe

ScheduleFault = Callable[[Schedule], Schedule]
RecipeFault = Callable[[Recipe], Recipe]
CastFault = Callable[[Tensor, torch.dtype], Tensor]

WARM_ONLY = frozenset({Compiler.WARM})


@dataclass(frozen=True)
class Fault:
    """A fault and where it enters.

    Attributes:
        imitates: the real fault in one sentence.
        code: the finding it should lead to.
        enters: compilers whose arms get it; never split, which is the reference.
        schedule, recipe, cast: what it spoils (exactly one is given). A cast is judged by the double-rounding probe; a
            recipe enters every arm and is judged by the kernel probes.
    """

    name: str
    imitates: str
    code: str
    enters: frozenset[Compiler] = WARM_ONLY
    schedule: ScheduleFault | None = None
    recipe: RecipeFault | None = None
    cast: CastFault | None = None

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.schedule, self.recipe, self.cast)) != 1:
            raise UsageError(f"fault {self.name!r} must spoil exactly one of schedule, recipe or cast")
        if self.enters & {Compiler.SPLIT, Compiler.SPLIT_ROUNDED}:
            raise UsageError(f"fault {self.name!r} may not enter split arms: they are the reference")

    def on_schedule(self, schedule: Schedule) -> Schedule:
        """The schedule as the fault leaves it; unchanged for arms that it doesn't enter."""
        if self.schedule is None or schedule.arm.compiler not in self.enters:
            return schedule
        return self.schedule(schedule)


def find_fault(name: str) -> Fault:
    """A shipped fault by name, or anybody's by ``package.module:name``.

    Raises:
        UsageError: there is none; the text lists the shipped ones.
    """
    from .shipped import FAULTS

    if name in FAULTS:
        return FAULTS[name]
    if ":" not in name:
        raise UsageError(f"unknown fault {name!r}; choose {choices(sorted(FAULTS))}, or give package.module:name")
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two: a relative or empty module
        raise UsageError(f"fault {name!r} can't be imported: {error}; give package.module:name of a Fault") from None
    if not isinstance(found, Fault):
        raise UsageError(f"{name!r} is a {type(found).__name__}, not a replaycheck.faults.fault.Fault")
    return found
