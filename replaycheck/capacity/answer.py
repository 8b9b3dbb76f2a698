"""One question answered: sizes, the waste of a state for every position, what RecoverSSM frees, and what a gain implies."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from replaycheck.schedule.speculation.method import Rollback

from .budget import Before, budget_for, length_for
from .geometry import Geometry
from .sizes import Layout, Sizes, sizes

__all__ = ["Answer", "Reading", "answer"]

SEQUENCES = (1, 2, 4, 8, 16)
"""For reading A, whose budget is proportional to the number."""


@dataclass(frozen=True)
class Reading:
    """One way to count what a gain compares.

    Attributes:
        name: what is counted. native, freed_to: bytes a request, before and after.
        budgets: bytes of cache per rank by number of sequences (reading A). length: tokens of context (reading B).
    """

    name: str
    native: int
    freed_to: int
    budgets: dict[int, int]
    length: int | None


@dataclass(frozen=True)
class Answer:
    """Bytes per rank unless it says otherwise.

    Attributes:
        wasted: temporal states of speculated positions, beside the one that is needed, all sequences of a rank.
        wasted_pages: the same with the convolution window that each slot of an engine holds, too.
        freed: what RecoverSSM frees of ``wasted_pages``, its records paid for.
    """

    geometry: Geometry
    layout: Layout
    sequences: int
    dp: int
    ep: int
    sizes: Sizes
    wasted: int
    wasted_pages: int
    freed: int
    gain: float | None
    readings: tuple[Reading, ...]

    def record(self) -> dict[str, object]:
        """As JSON: bytes as integers."""
        found = asdict(self)
        found["sizes"]["by_method"] = {str(name): size for name, size in self.sizes.by_method.items()}
        for reading in found["readings"]:
            reading["budgets"] = {str(n): size for n, size in reading["budgets"].items()}
        found["layout"] |= {"window": self.layout.window, "ring": self.layout.ring_tokens}
        found["sequences_total"] = self.sequences * self.dp
        return found


def answer(geometry: Geometry, layout: Layout, sequences: int, dp: int, ep: int, gain: float | None = None) -> Answer:
    """Compute it.

    Args:
        sequences: on each data-parallel rank. dp: such ranks; each holds its own states whole (split by tp only).
        ep: ranks that experts are spread over, which moves no state.
        gain: of capacity, e.g. 0.1097; None asks nothing about budgets.
    """
    found = sizes(geometry, layout)
    slots, recover = found.by_method[Rollback.SLOTS], found.by_method[Rollback.RECOVER]
    return Answer(
        geometry,
        layout,
        sequences,
        dp,
        ep,
        found,
        wasted=sequences * layout.drafts * found.temporal,
        wasted_pages=sequences * layout.drafts * found.page,
        freed=sequences * (slots - recover),
        gain=gain,
        readings=_readings(found, layout, gain) if gain and layout.drafts else (),
    )


def _readings(found: Sizes, layout: Layout, gain: float) -> tuple[Reading, ...]:
    pages = layout.window * found.page
    ways = {
        "temporal states alone": Before(layout.window * found.temporal, found.temporal),
        "with convolution windows": Before(pages, found.page),
        "and records in the budget": Before(pages, found.page + found.records),
    }
    return tuple(_reading(name, states, found.token, gain) for name, states in ways.items())


def _reading(name: str, states: Before, token: int, gain: float) -> Reading:
    budgets = {n: round(budget_for(gain, n, states)) for n in SEQUENCES}
    length = length_for(gain, states, token)
    return Reading(name, states.native, states.freed_to, budgets, None if length is None else round(length))
