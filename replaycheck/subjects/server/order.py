"""In which order a group's requests are sent, and which of them are in flight at once.

Alone: as the schedule has them. Beside others: a turn waits for the turns of its own conversation that its prompt holds, and
for nothing else, so that sessions, branches and the scored positions of a turn meet in the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from replaycheck.schedule.steps import RequestPlan

from .engine import Ask

__all__ = ["Sent", "alone", "beside", "levels"]


@dataclass(frozen=True)
class Sent:
    """A request of turn ``number`` of the schedule. opens: it is the turn's first, whose hit is the turn's."""

    number: int
    opens: bool
    ask: Ask


def alone(asks: Mapping[int, Sequence[Ask]]) -> Iterator[list[Sent]]:
    """One request at a time; ``asks``: those of each turn, by its number."""
    return ([sent] for number, mine in asks.items() for sent in _of(number, mine))


def beside(plans: Sequence[RequestPlan], asks: Mapping[int, Sequence[Ask]], size: int) -> Iterator[list[Sent]]:
    """Up to ``size`` at a time: of all turns of a level the first requests, then their second ones, and so on.

    A turn's first request leaves what its others hit, so they wait for it, unless it had no company otherwise.
    """
    level = levels(plans)
    for depth in range(max(level, default=-1) + 1):
        mine = [_of(number, asks[number]) for number in asks if level[number] == depth]
        first = [turn[0] for turn in mine if turn]
        others = [sent for some in zip_longest(*(turn[1:] for turn in mine)) for sent in some if sent is not None]
        while first or others:
            part, first = first[:size], first[size:]
            if len(part) < 2:
                part, others = part + others[: size - len(part)], others[size - len(part) :]
            yield part


def levels(plans: Sequence[RequestPlan]) -> list[int]:
    """How many turns have to be over before each: earlier ones of its trace, with whose prompts its own begins."""
    found: list[int] = []
    for plan in plans:
        below = (at for at, _ in enumerate(found) if _builds_on(plan, plans[at]))
        found.append(1 + max((found[at] for at in below), default=-1))
    return found


def _builds_on(plan: RequestPlan, earlier: RequestPlan) -> bool:
    return plan.trace == earlier.trace and plan.tokens[: earlier.prompt] == earlier.tokens[: earlier.prompt]


def _of(number: int, asks: Sequence[Ask]) -> list[Sent]:
    return [Sent(number, at == 0, ask) for at, ask in enumerate(asks)]
