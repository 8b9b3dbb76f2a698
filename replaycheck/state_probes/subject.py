"""What ``probe state`` looks at: a device, a recipe, and the parts that a fault can replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from replaycheck.probes.double_rounding import Cast
from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import PrefixCache
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.pool import Pool, cast
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import SGLANG, Recipe
from replaycheck_kernels.speculation.backend import TORCH, Backend

from .tiny import write_tiny

__all__ = ["Subject"]

T = TypeVar("T")


def _unspoiled(schedule: Schedule) -> Schedule:
    return schedule


@dataclass
class Subject:
    """Attributes:
    model, groups: whose real states the casts are tried on; None: the tiny random model's.
    store: the cast of a store. pool: makes the slots. cache: makes a prefix cache. spoil: what a fault does to warm plans.
    replaced: kernels by form instead of ours. backend: kernels in torch that verify and commit windows.
    """

    device: str = "cpu"
    recipe: Recipe = SGLANG
    seed: int = 0
    model: Path | None = None
    groups: Sequence[Group] = ()
    store: Cast = cast
    pool: type[Pool] = Pool
    cache: Callable[[Policy], PrefixCache] = prefix_cache
    spoil: Callable[[Schedule], Schedule] = _unspoiled
    replaced: dict[str, StateKernel] = field(default_factory=dict)
    backend: Backend = TORCH
    only: tuple[str, ...] = ()
    _kept: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several rows are read from is made once."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    @cached_property
    def kernels(self) -> dict[str, StateKernel]:
        """The lab's kernels on this device, by form."""
        return lab_kernels(KernelChoice(device=self.device), self.recipe).kernels() | self.replaced

    @cached_property
    def network(self) -> Network:
        """A tiny random model of both layer kinds."""
        with TemporaryDirectory(prefix="replaycheck-probe-") as folder:
            write_tiny(Path(folder), self.seed)
            return Network(Path(folder), self.recipe, self.kernels, self.device)

    def wants(self, name: str) -> bool:
        """Whether a row is asked for."""
        return not self.only or any(part in name for part in self.only)
