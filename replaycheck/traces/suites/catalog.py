"""The suites by name: what ``trace synth --suite`` can make, in which sizes, and which of it ships."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.traces.specs import GroupSpec

from .archetypes.edges import boundary
from .archetypes.scene import Archetype, Scene
from .archetypes.table import ARCHETYPES
from .policies import policies_specs
from .quick import quick_specs
from .sizes import SIZES, SMALL, TINY, Size
from .speculation import speculation_specs

__all__ = ["SHIPPED_SEED", "SUITES", "SuiteSource", "suite_source"]

#: The seed of the files that ship.
SHIPPED_SEED = 0

#: Traces of the suite ci; its gates need 64.
CI_GROUPS = 72


@dataclass(frozen=True)
class SuiteSource:
    """sized: whether it comes in three sizes; otherwise it has one, called small. specs: of a size and a seed."""

    name: str
    sized: bool
    specs: Callable[[Size, int], Iterator[GroupSpec]]

    def make(self, size: str, seed: int) -> Iterator[GroupSpec]:
        """The specs. Raises :class:`UsageError` for an unknown size, or one that this suite doesn't come in."""
        if size not in SIZES:
            raise UsageError(
                f"--size {size!r} is unknown{did_you_mean(size, SIZES)}; sizes are {choices(SIZES)}; give one"
            )
        if not self.sized and size != SMALL.name:
            raise UsageError(f"--size {size!r}: suite {self.name!r} comes in one size; leave --size out")
        return self.specs(SIZES[size], seed)

    def shipped_as(self, size: str) -> str:
        """The name of the file under traces/ that holds it, if it ships."""
        return self.name if size == SMALL.name else f"{self.name}-{size}"


def suite_source(name: str) -> SuiteSource:
    """The suite of that name. Raises :class:`UsageError`."""
    if name not in SUITES:
        raise UsageError(
            f"--suite {name!r} is unknown{did_you_mean(name, SUITES)}; "
            f"suites that can be made are {choices(SUITES)}; name one"
        )
    return SUITES[name]


def _archetype(name: str, make: Archetype) -> Callable[[Size, int], Iterator[GroupSpec]]:
    label = f"{list(ARCHETYPES).index(name) + 1}-{name}"
    return lambda size, seed: iter(make(Scene(size, seed, label, f"{size.name}.{name}")))


def _archetypes(size: Size, seed: int) -> Iterator[GroupSpec]:
    for name, make in ARCHETYPES.items():
        yield from _archetype(name, make)(size, seed)


def _boundary(size: Size, seed: int) -> Iterator[GroupSpec]:
    return iter(boundary(Scene(size, seed, "11-boundary", f"{size.name}.boundary")))


#: Archetypes that are short when they are tiny; the others show what they are for by their length alone.
_SHORT = (
    "chat_long_system", "agent_tool_loop", "reasoning_stripped", "regenerate_and_fork", "edit_earlier_turn",
    "context_compaction", "preemption", "shared_fewshot", "chunk_edges", "one_token_and_full_hit", "empty_turns",
    "eviction_pressure",
)  # fmt: skip


def _ci(size: Size, seed: int) -> Iterator[GroupSpec]:
    """Short traces in turn from the short archetypes, each with texts of its own."""
    del size
    return islice(_tiny(seed), CI_GROUPS)


def _tiny(seed: int) -> Iterator[GroupSpec]:
    number = 0
    while True:
        for name in _SHORT:
            label = f"{list(ARCHETYPES).index(name) + 1}-{name}"
            yield from ARCHETYPES[name](Scene(TINY, seed, label, f"ci{number:02d}.{name}"))
            number += 1


SUITES: Mapping[str, SuiteSource] = {
    each.name: each
    for each in (
        SuiteSource("quick", False, lambda size, seed: iter(quick_specs())),
        SuiteSource("speculation", False, lambda size, seed: iter(speculation_specs())),
        SuiteSource("policies", False, lambda size, seed: iter(policies_specs())),
        SuiteSource("boundary", True, _boundary),
        SuiteSource("ci", False, _ci),
        SuiteSource("archetypes", True, _archetypes),
        *(SuiteSource(name, True, _archetype(name, make)) for name, make in ARCHETYPES.items()),
    )
}
