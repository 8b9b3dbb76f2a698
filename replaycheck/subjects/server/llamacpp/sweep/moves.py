"""What clients do to cached text, as requests with forced answers: one conversation of five turns, and what happens to it.

Token ids are random printable characters from a seed, so that no two turns share text by chance. Answers are short; what
counts is which part of a prompt the server takes from its cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

__all__ = ["ANSWER", "SYSTEM", "Move", "behind_shift", "moves"]

Tokens = tuple[int, ...]

SYSTEM = 40
USERS = 50, 23, 71, 37, 64
"""Tokens of the user's turns; unlike lengths, so that a state of the wrong turn isn't at the right position."""

ANSWER = 8
_FIRST, _LAST = 33, 126


@dataclass(frozen=True)
class Move:
    """One request.

    Attributes:
        name: what the client does. prompt, answer: token ids; the answer is forced.
        unedited: the text that the slot holds, where this prompt was made from it by dropping tokens.
        other: runs on another slot. actions: on the slot before the request: save, erase, restore.
        beside: a second request that runs at the same time, on another slot.
        compared: whether the answer can be: one that outgrows its context has no uncached counterpart.
    """

    name: str
    prompt: Tokens
    answer: Tokens
    unedited: Tokens | None = None
    other: bool = False
    actions: tuple[str, ...] = ()
    beside: Move | None = None
    compared: bool = True


def moves(seed: int = 0) -> tuple[Move, ...]:
    """The whole list, in order."""
    return tuple(_moves(_Talk(Random(seed))))


def behind_shift(seed: int = 0, context: int = 512, keep: int = SYSTEM) -> tuple[Move, ...]:
    """An answer that outgrows a slot's context, and a prompt that goes on from the text that the shift left.

    The server drops half of what lies between ``keep`` and the end as soon as one token is left (``n_keep``, ``n_discard``
    of the request at their defaults but for the first); a client that cuts its history in the same way hits.
    """
    talk = _Talk(Random(f"shift {seed}"))
    prompt, answer = talk.prompt(len(USERS) - 1), talk.text(context - SYSTEM * 5)
    text = prompt + answer[:-1]
    left = context - 1 - keep
    dropped = text[:keep] + text[keep + left // 2 :]
    more, last = talk.text(12), talk.text(ANSWER)
    return (
        Move("an answer outgrows the context", prompt, answer, compared=False),
        Move("behind a shifted context", dropped + more, last, unedited=text + more),
    )


class _Talk:
    """A conversation."""

    def __init__(self, draws: Random) -> None:
        self._draws = draws
        self.system = self.text(SYSTEM)
        self.users = [self.text(length) for length in USERS]
        self.answers = [self.text(ANSWER) for _ in USERS]

    def text(self, length: int) -> Tokens:
        return tuple(self._draws.randint(_FIRST, _LAST) for _ in range(length))

    def changed(self, tokens: Sequence[int], at: int, length: int) -> Tokens:
        """Other tokens at that place."""
        other = (_FIRST + (token - _FIRST + 1) % (_LAST - _FIRST) for token in tokens[at : at + length])
        return (*tokens[:at], *other, *tokens[at + length :])

    def prompt(self, turn: int, drop: Sequence[int] = ()) -> Tokens:
        """Everything before the answer of ``turn``, without the turns ``drop`` and their answers."""
        past = [self.users[i] + self.answers[i] for i in range(turn) if i not in drop]
        return (*self.system, *(token for each in past for token in each), *self.users[turn])

    def move(self, name: str, turn: int, prompt: Tokens | None = None, unedited: Tokens | None = None) -> Move:
        return Move(name, self.prompt(turn) if prompt is None else prompt, self.answers[turn], unedited)


def _moves(talk: _Talk) -> Iterator[Move]:
    last = len(USERS) - 1
    full = talk.prompt(last)
    early = SYSTEM + USERS[0] + ANSWER
    yield talk.move("first turn", 0)
    for turn in range(1, last + 1):
        yield talk.move("next turn", turn)
    yield talk.move("same prompt again", last)
    yield from _branch(talk)
    for name, prompt in (
        ("edit in an early turn", talk.changed(full, early + 5, 2)),
        ("last three tokens edited", talk.changed(full, len(full) - 3, 3)),
        ("last twenty tokens edited", talk.changed(full, len(full) - 20, 20)),
        ("prompt cut by ten", full[:-10]),
        ("prompt cut by two", full[:-2]),
    ):
        yield talk.move("the whole conversation again", last)
        yield talk.move(name, last, prompt)
    for name, prompt in (
        ("tokens dropped in an early turn", full[: early + 5] + full[early + 12 :]),
        ("an early turn dropped", talk.prompt(last, drop=(1,))),
        ("the first two turns dropped", talk.prompt(last, drop=(0, 1))),
    ):
        yield talk.move("the whole conversation again", last)
        yield talk.move(name, last, prompt, unedited=full)
    yield from _elsewhere(talk, full)


def _branch(talk: _Talk) -> Iterator[Move]:
    users, answers = talk.users[2:4], talk.answers[2:4]
    third, fourth = talk.text(45), talk.text(31)
    before = talk.prompt(2)[: -len(users[0])]
    yield Move("branch with a turn of another length", before + third, answers[0])
    yield Move("the branch goes on", before + third + answers[0] + fourth, answers[1])


def _elsewhere(talk: _Talk, full: Tokens) -> Iterator[Move]:
    """Other conversations, other slots, and a slot that is saved, emptied and restored."""
    other = _Talk(Random(f"other {talk.system}"))
    last, answer = len(USERS) - 1, talk.answers[-1]
    yield talk.move("the whole conversation again", last)
    yield other.move("another conversation", 1)
    yield talk.move("back to the first conversation", last)
    more = full + answer + talk.text(19)
    third = _Talk(Random(f"third {talk.system}"))
    yield Move("on another slot", third.prompt(1), third.answers[1], other=True)
    yield Move("back on the first slot", more, answer)
    beside = Move("beside", third.prompt(2), third.answers[2], other=True)
    yield Move("two at once", more + answer + talk.text(11), answer, beside=beside)
    yield talk.move("the whole conversation again", last)
    yield Move("slot saved, emptied, restored, gone on", more, answer, actions=("save", "erase", "restore"))
    yield talk.move("rewound behind a restored slot", last, full[:-10])
    yield from _quotation(talk)


def _quotation(talk: _Talk) -> Iterator[Move]:
    """An answer that quotes its prompt, breaks off and quotes again: speculation drafts it, rightly and wrongly."""
    text = talk.text(120)
    prompt, answer = text + talk.text(7) + text[40:54], text[54:80] + talk.text(6) + text[20:40]
    yield Move("an answer that quotes", prompt, answer)
    yield Move("the same quotation again", prompt, answer)
    yield Move("gone on behind a quotation", prompt + answer + talk.text(9), talk.text(ANSWER))
