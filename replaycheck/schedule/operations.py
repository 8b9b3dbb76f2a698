"""What an engine does with states while it serves a group, in order: the logical plan that warm and split compile.

Nothing here has a slot. Requests are meant by their index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .prefix.job import Piece, Stored, Take
from .steps import Checkpoint, RequestPlan


@dataclass(frozen=True)
class Begin:
    """A request gets a working state: a stored one, or that of no tokens."""

    request: int
    restore: Checkpoint | None


@dataclass(frozen=True)
class Branch:
    """A request gets a copy of the live state of another one."""

    request: int
    source: int
    state: Checkpoint


@dataclass(frozen=True)
class Move:
    """The working state goes on in a copy, in another slot."""

    request: int
    state: Checkpoint


@dataclass(frozen=True)
class Span:
    """Tokens of one request in a forward pass. score_from, shared: as in Row.

    A pipeline runs one token past an answer's last input: that span ends at the request's ``end``, its result is discarded.
    """

    request: int
    piece: Piece
    takes: tuple[Take, ...]
    score_from: int | None = None
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run:
    """One forward pass."""

    spans: tuple[Span, ...]


def without_discarded(run: Run, requests: Sequence[RequestPlan]) -> Run:
    """The pass without tokens that a pipeline ran past the end of an answer."""
    return Run(tuple(span for span in run.spans if span.piece.b <= requests[span.request].computed_end))


@dataclass(frozen=True)
class Store:
    """A state that a request left behind can be hit from here on; another one may be evicted for it."""

    request: int
    stored: Stored


@dataclass(frozen=True)
class Swap:
    """The working state goes to the host (``out``) or comes back."""

    request: int
    state: Checkpoint
    out: bool


@dataclass(frozen=True)
class Tier:
    """A stored state goes to the host (``out``) or comes back."""

    state: Checkpoint
    out: bool


@dataclass(frozen=True)
class Abort:
    """The load of a stored state from the host was given a slot and then aborted; the state is lost."""

    state: Checkpoint


@dataclass(frozen=True)
class End:
    """A request gives its slots back, at its end or because it will be computed again."""

    request: int


Operation = Begin | Branch | Move | Run | Store | Swap | Tier | Abort | End


@dataclass(frozen=True)
class GroupPlan:
    """The logical plan of a group under a policy."""

    requests: tuple[RequestPlan, ...]
    operations: tuple[Operation, ...]

    @property
    def hits(self) -> int:
        """Restores, those after a preemption too."""
        return sum(isinstance(each, Begin) and each.restore is not None for each in self.operations)

    def needed(self) -> dict[int, int]:
        """By request: tokens up to which some stored state depends on its computation; 0: none does."""
        found = {index: max((c.position for c in plan.creates), default=0) for index, plan in enumerate(self.requests)}
        for each in reversed(self.operations):
            if isinstance(each, Branch) and found[each.request]:
                found[each.source] = max(found[each.source], each.state.position)
        return found
