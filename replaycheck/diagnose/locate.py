"""From two trails to the first wrong step: operation, request, position, then layer and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replaycheck.schema.gaps import Where

from .trail import Key, Op, Seen, Trail
from .words import Place, places

__all__ = ["FirstWrong", "Named", "first_wrong"]

_DOING = {
    Op.LOAD: "reading the state to continue from",
    Op.COMPUTE: "computing",
    Op.SNAPSHOT: "taking a state inside the call",
    Op.STORE: "storing the state after the call",
    Op.LOGITS: "computing logits from equal states",
    Op.COMMIT: "storing a checkpoint",
    Op.COPY: "copying a state",
}


@dataclass(frozen=True)
class Named:
    """How a request is called: trace, branch, turn (assistant turns before it)."""

    trace: str
    branch: int
    turn: int

    @property
    def where(self) -> Where:
        """The turn, as results name it."""
        return Where(trace=self.trace, branch=self.branch, turn=self.turn)


@dataclass(frozen=True)
class FirstWrong:
    """The first step of the candidate that isn't the reference's.

    Attributes:
        step, reference: the step in both arms; the reference is None where it has no such step.
        places: (model layer, head) whose recurrent state differs; conv: model layers whose convolution window does.
        later: share of the steps after it that are wrong, too. layers: model layers of the recurrent ones. heads: of each.
    """

    step: Seen
    reference: Seen | None
    named: Named
    places: tuple[Place, ...]
    conv: tuple[int, ...]
    later: float
    layers: tuple[int, ...]
    heads: int

    @property
    def key(self) -> Key:
        return self.step.key

    @property
    def sentence(self) -> str:
        """Step, then layer and head."""
        named, key, row = self.named, self.key, self.step.row
        span = f", tokens {row.a} to {row.b} by the {row.kernel} kernel ({row.kind})" if row else ""
        state = f" of {key.name}" if key.name else ""
        what = "there is no such step in the reference" if self.reference is None else f"it differs in {self._where()}"
        return (
            f"First wrong step: {_DOING[key.op]}{state} at {key.position} tokens{span}, trace {named.trace}, "
            f"branch {named.branch}, turn {named.turn}; {what}."
        )

    @property
    def pages(self) -> int:
        """Tokens that the attention cache has more than the reference's."""
        if self.reference is None or self.step.pages is None or self.reference.pages is None:
            return 0
        return self.step.pages - self.reference.pages

    def _where(self) -> str:
        universe = [(layer, head) for layer in self.layers for head in range(self.heads)]
        found = [places(self.places, universe)] if self.places else []
        found += [f"the convolution windows of layers {', '.join(map(str, self.conv))}"] if self.conv else []
        found += [f"the attention cache, by {self.pages:+d} tokens"] if self.pages else []
        return " and ".join(found) or "the logits alone"


def first_wrong(
    candidate: Trail, reference: Trail, layers: Sequence[int], skip: Callable[[Seen], bool] = lambda seen: False
) -> FirstWrong | None:
    """The first step of ``candidate`` with other digests than the reference's, or that it doesn't have; None: all equal.

    Args:
        layers: model layers of the recurrent layers, in order. skip: wrong steps that aren't meant.
    """
    known = {seen.key: seen for seen in reference.steps}
    stored = {seen.key.name: seen for seen in reference.steps if seen.key.op is Op.COMMIT}
    astray = set(_astray(candidate))
    wrong = [
        (number, seen)
        for number, seen in enumerate(candidate.steps)
        if _differs(seen, _other(seen, known, stored), number in astray)
    ]
    chosen = next(((number, seen) for number, seen in wrong if not skip(seen)), None)
    if chosen is None:
        return None
    number, seen = chosen
    other = _other(seen, known, stored)
    plan = candidate.schedule.requests[seen.key.request]
    after = len(candidate.steps) - number - 1
    return FirstWrong(
        seen,
        other,
        Named(plan.trace, plan.branch, plan.turn),
        _places(seen, other, layers),
        _windows(seen, other, layers),
        sum(other > number for other, _ in wrong) / after if after else 0.0,
        tuple(layers),
        seen.temporal.shape[1] or 1,
    )


def _other(seen: Seen, known: Mapping[Key, Seen], stored: Mapping[str, Seen]) -> Seen | None:
    """The reference's step. Only a warm arm copies: what it copied is held against what was stored under that name."""
    return known.get(seen.key) or (stored.get(seen.key.name) if seen.key.op is Op.COPY else None)


def _astray(trail: Trail) -> Iterator[int]:
    """Numbers of rows that begin a request, or don't begin where its row before ended."""
    ends: dict[tuple[int, bool], int] = {}
    for number, seen in enumerate(trail.steps):
        line = seen.key.request, seen.key.scored
        if seen.key.op is Op.LOAD and ends.get(line) != seen.key.position:
            yield number
        if seen.key.op is Op.COMPUTE:
            ends[line] = seen.key.position


def _differs(seen: Seen, other: Seen | None, astray: bool) -> bool:
    if other is None:
        # Other cuts, copies of what is never stored and the states of a window's other positions are warm's own; a row that
        # begins elsewhere is not.
        return astray and seen.key.op is Op.LOAD
    same = np.array_equal(seen.temporal, other.temporal)
    if seen.key.op is Op.SNAPSHOT:
        # Its two parts may be meant for different positions; what is stored under the name says which is wrong.
        return not same
    same = same and np.array_equal(seen.conv, other.conv)
    return not same or seen.pages != other.pages


def _places(seen: Seen, other: Seen | None, layers: Sequence[int]) -> tuple[Place, ...]:
    if other is None or not seen.temporal.size:
        return ()
    return tuple((layers[layer], int(head)) for layer, head in np.argwhere(seen.temporal != other.temporal))


def _windows(seen: Seen, other: Seen | None, layers: Sequence[int]) -> tuple[int, ...]:
    if other is None or seen.key.op is Op.LOGITS:
        return ()
    return tuple(layers[layer] for (layer,) in np.argwhere(seen.conv != other.conv))
