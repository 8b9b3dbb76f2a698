"""A trace for a subject with another vocabulary: its text through that subject's tokenizer, or its ids folded into a range.

A tokenizer keeps the words: lengths change, and where turns end it may cut otherwise than it would the whole (drift, which
is counted). Folding is for a random test model, to which no id means anything: lengths, structure and what is equal stay.
Special tokens go first in the folded range, so that they stay apart from each other and from text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Event, Fork, Group, Preemption, Role, Speculation, Trace, Turn
from replaycheck.traces import vocabulary
from replaycheck.traces.drift import boundary_drift
from replaycheck.traces.tree import TraceTree

__all__ = ["Revocabulary", "SpecialTokens", "Tokenizer", "fold", "folded", "tokenised"]


class Tokenizer(Protocol):
    """What a subject's tokenizer must do."""

    @property
    def size(self) -> int:
        """Ids are 0 to size − 1."""
        ...

    def encode(self, text: str, /) -> list[int]:
        """The ids of a text, without any added at its ends."""
        ...


@dataclass(frozen=True)
class SpecialTokens:
    """The subject's ids for what a path begins with, what opens a turn of each role, and what ends one."""

    bos: int
    roles: Mapping[Role, int]
    end: int


@dataclass(frozen=True)
class Revocabulary:
    """A group in another vocabulary, and how it got there.

    Its token ids aren't those of its texts in ``ascii-144``: it can be replayed, and not written to a trace file.

    Attributes:
        bos: the id that a path begins with; ``TokenPath.tokens`` has ours in its place.
        boundaries, drifted: ends of turns that were compared, and those at which the ids of the whole path's text differ.
        dropped: events that count tokens and have no meaning in the other ones, by kind.
    """

    group: Group
    method: Literal["tokenizer", "folded"]
    bos: int
    boundaries: int = 0
    drifted: int = 0
    dropped: Mapping[str, int] | None = None

    def text(self) -> str:
        """What a run says about it."""
        if self.method == "folded":
            return f"token ids folded into {self.group.vocabulary}: lengths and equality kept, words lost"
        lost = "".join(f", {count} {kind} events dropped" for kind, count in (self.dropped or {}).items())
        drift = f"{self.drifted} of {self.boundaries} turn ends drift"
        return f"text tokenised for {self.group.vocabulary}: {drift}{lost}"


def fold(token: int, size: int) -> int:
    """Our ``token`` as an id below ``size``: special tokens are 0 to 15, text shares the rest.

    >>> [fold(token, 100) for token in (vocabulary.PAD, vocabulary.END, 0, 83, 84)]
    [0, 6, 16, 99, 16]
    """
    special = vocabulary.SIZE - vocabulary.TEXT_SIZE
    if token >= vocabulary.TEXT_SIZE:
        return token - vocabulary.TEXT_SIZE
    return special + token % (size - special)


def folded(group: Group, size: int) -> Revocabulary:
    """``group`` with every id below ``size``. Events stay: nothing changes its place.

    Raises :class:`UsageError` if there is no room for text beside the 16 special tokens.
    """
    special = vocabulary.SIZE - vocabulary.TEXT_SIZE
    if size <= special:
        raise UsageError(f"a vocabulary of {size} ids is too small; allowed: at least {special + 1}")

    def turn(each: Turn) -> Turn:
        return each.model_copy(update={"tokens": tuple(fold(token, size) for token in each.tokens)})

    def event(each: Event) -> Event:
        if not isinstance(each, Speculation):
            return each
        return each.model_copy(update={"drafts": tuple(fold(token, size) for token in each.drafts)})

    made = _mapped(group, f"folded-{size}", turn, event)
    return Revocabulary(made, "folded", fold(vocabulary.BOS, size))


def tokenised(group: Group, name: str, tokenizer: Tokenizer, special: SpecialTokens) -> Revocabulary:
    """``group`` with the ids that ``tokenizer`` gives its texts, turn by turn.

    Args:
        name: of the subject's vocabulary, for the record.

    Raises :class:`UsageError` for an id outside the vocabulary. Speculation, preemption and fork events count tokens of the
    old vocabulary; they are dropped and counted.
    """
    dropped: dict[str, int] = {}

    def turn(each: Turn) -> Turn:
        tokens = (special.roles[each.role], *tokenizer.encode(each.text), special.end)
        outside = next((token for token in tokens if not 0 <= token < tokenizer.size), None)
        if outside is not None:
            raise UsageError(
                f"turn {each.id!r}: id {outside} is outside {name!r}, whose ids are 0 to {tokenizer.size - 1}"
            )
        return each.model_copy(update={"tokens": tokens})

    def event(each: Event) -> Event | None:
        if not isinstance(each, Speculation | Preemption | Fork):
            return each
        dropped[each.kind] = dropped.get(each.kind, 0) + 1
        return None

    made = Revocabulary(_mapped(group, name, turn, event), "tokenizer", special.bos, dropped=dropped)
    counts = [_drift(trace, tokenizer) for trace in group.traces]
    return replace(made, boundaries=sum(n for n, _ in counts), drifted=sum(n for _, n in counts))


def _drift(trace: Trace, tokenizer: Tokenizer) -> tuple[int, int]:
    """Turn ends inside paths, and those where the words of the path, tokenised together, are cut otherwise.

    Each turn is looked at with its parent only: a tokenizer that merges across an end does so between neighbours.
    """
    turns = TraceTree(trace).turns
    pairs = [(turns[turn.parent].text, turn.text) for turn in trace.turns if turn.parent is not None]
    return len(pairs), sum(bool(list(boundary_drift(pair, tokenizer.encode))) for pair in pairs)


def _mapped(group: Group, name: str, turn: Callable[[Turn], Turn], event: Callable[[Event], Event | None]) -> Group:
    traces = tuple(
        trace.model_copy(
            update={
                "turns": tuple(map(turn, trace.turns)),
                "events": tuple(made for made in map(event, trace.events) if made is not None),
            }
        )
        for trace in group.traces
    )
    return group.model_copy(update={"traces": traces, "vocabulary": name})
