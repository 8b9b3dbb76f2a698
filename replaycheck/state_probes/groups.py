"""The operations of typical workloads as small groups, by hand: forks, preemptions, batches, tiers, empty turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replaycheck.schedule.speculation.drafts import draft
from replaycheck.schema.trace import (
    TRACE_SCHEMA,
    AbortedLoad,
    BatchMates,
    Event,
    Fork,
    Group,
    Offload,
    Preemption,
    Request,
    Role,
    Trace,
    Turn,
)
from replaycheck.traces.tree import TraceTree
from replaycheck.traces.vocabulary import NAME, SIZE, turn_tokens

__all__ = [
    "GROUPS",
    "TWINS",
    "WINDOWS",
    "Counts",
    "chain",
    "group",
    "shared_answers",
    "turn",
    "windowed",
    "with_events",
]

Counts = Sequence[tuple[int, int]]
"""(drafts, accepted) of one window after the other; (0, 0) is a step without drafts."""


def turn(id_: str, parent: str | None, role: Role, length: int) -> Turn:
    """A turn of ``length`` letters, which begin with those of its name."""
    text = (id_ * length)[:length]
    return Turn(id=id_, parent=parent, role=role, text=text, tokens=tuple(turn_tokens(role, text)))


def group(turns: Sequence[Turn], requests: Sequence[str]) -> Group:
    """A group of one trace, with these turns asked for in this order."""
    return Group(
        schema=TRACE_SCHEMA,
        group="g",
        vocabulary=NAME,
        traces=(Trace(id="t", turns=tuple(turns)),),
        requests=tuple(Request(trace="t", turn=name) for name in requests),
    )


def chain(*lengths: int) -> Group:
    """User and assistant turns of these lengths in one line, asked for in order."""
    roles: tuple[Role, Role] = ("user", "assistant")
    turns: list[Turn] = []
    parent = None
    for i, length in enumerate(lengths):
        turns.append(turn(f"{'ua'[i % 2]}{i // 2}", parent, roles[i % 2], length))
        parent = turns[-1].id
    return group(turns, [each.id for each in turns if each.role == "assistant"])


def with_events(plain: Group, *events: Event) -> Group:
    """The group with these events on its first trace."""
    trace = plain.traces[0].model_copy(update={"events": events})
    return plain.model_copy(update={"traces": (trace, *plain.traces[1:])})


def windowed(plain: Group, counts: Mapping[str, Counts], *events: Event) -> Group:
    """The group with windows in the answers of its first trace, and other events."""
    tree = TraceTree(plain.traces[0])
    windows = [
        window
        for seed, (turn, wanted) in enumerate(counts.items())
        for window in draft(turn, tree.path(turn).answer, wanted, SIZE, seed)
    ]
    return with_events(plain, *windows, *events)


def shared_answers(parent: str, names: Sequence[str], lengths: Sequence[int], shared: Sequence[int]) -> list[Turn]:
    """Answers to one turn; each begins with ``shared`` letters of the first one."""
    turns = []
    for name, length, same in zip(names, lengths, shared, strict=True):
        text = (names[0] * same)[:same] + (name.upper() * length)[: max(0, length - same)]
        tokens = tuple(turn_tokens("assistant", text))
        turns.append(Turn(id=name, parent=parent, role="assistant", text=text, tokens=tokens))
    return turns


def _conversation() -> Group:
    """Three turns, a resent prompt, and a second question on the first answer."""
    turns = [
        turn("u0", None, "user", 130),
        turn("a0", "u0", "assistant", 40),
        turn("u1", "a0", "user", 3),
        turn("a1", "u1", "assistant", 30),
        turn("u2", "a1", "user", 61),
        turn("a2", "u2", "assistant", 5),
        turn("v1", "a0", "user", 20),
        turn("b1", "v1", "assistant", 4),
    ]
    return group(turns, ["a0", "a1", "a2", "b1", "a1"])


def _beam() -> Group:
    """A beam search that drops, duplicates and reorders at tokens 7 and 14."""
    turns = [
        turn("u", None, "user", 62),
        *shared_answers("u", ["p", "q", "r", "s", "t", "w"], [20, 7, 9, 9, 24, 18], [20, 0, 7, 0, 7, 14]),
    ]
    forks = [
        Fork(kind="fork", turn=name, source="p", offset=offset)
        for name, offset in (("q", 0), ("r", 7), ("s", 0), ("t", 7), ("w", 14))
    ]
    return with_events(group(turns, ["p", "q", "r", "s", "t", "w"]), *forks)


def _preempted() -> Group:
    """Taken off in the prompt and in the answer, computed again and swapped, others in between."""
    turns: list[Turn] = []
    for name, size in (("p", 100), ("q", 70), ("r", 66), ("s", 30)):
        turns += [turn(f"u{name}", None, "user", size), turn(name, f"u{name}", "assistant", 9)]
    events = [
        Preemption(kind="preemption", turn="p", after=65, resume="recompute"),
        Preemption(kind="preemption", turn="q", after=78, resume="recompute"),
        Preemption(kind="preemption", turn="r", after=72, resume="swap"),
    ]
    return with_events(group(turns, ["p", "q", "r", "s"]), *events)


def _batch() -> Group:
    """Five requests on one system prompt; two at once read one state, one prompt is one token longer than it (10."""
    turns = [turn("y", None, "system", 126), turn("u0", "y", "user", 4), turn("a0", "u0", "assistant", 3)]
    for i, (size, answer) in enumerate(((0, 4), (17, 12), (90, 0), (33, 7)), 1):
        turns += [turn(f"u{i}", "y", "user", size), turn(f"a{i}", f"u{i}", "assistant", answer)]
    mates = BatchMates(kind="batch", turn="a1", mates=("a2", "a3", "a4"))
    return with_events(group(turns, ["a0", "a1", "a2", "a3", "a4"]), mates)


def _tiers() -> Group:
    """States go to the host and come back, once with the load aborted; other requests take the slots."""
    turns = [turn("u", None, "user", 140), turn("a", "u", "assistant", 10)]
    for name, parent, size in (("v", "a", 20), ("w", "v", 40), ("x", None, 70)):
        turns += [turn(f"u{name}", parent, "user", size), turn(name, f"u{name}", "assistant", 6)]
    events: list[Event] = [
        Offload(kind="offload", turn="a"),
        Offload(kind="offload", turn="v"),
        AbortedLoad(kind="aborted-load", turn="w"),
    ]
    return with_events(group(turns, ["a", "x", "v", "x", "w"]), *events)


def _empty_turns() -> Group:
    """Questions and answers without text; prompts a token apart."""
    turns: list[Turn] = []
    parent = None
    for i, (user, answer) in enumerate(((60, 0), (0, 30), (1, 0), (0, 0), (31, 1))):
        turns += [turn(f"u{i}", parent, "user", user), turn(f"a{i}", f"u{i}", "assistant", answer)]
        parent = f"a{i}"
    return group(turns, [f"a{i}" for i in range(5)])


def _twins() -> Group:
    """One prompt of 100 tokens three times, side by side; answers end a token before a grid of 64, on it and after it."""
    turns = [turn("u", None, "user", 96)]
    turns += [turn(name, "u", "assistant", size) for name, size in (("p", 27), ("q", 28), ("r", 29))]
    turns += [turn("v", "p", "user", 9), turn("s", "v", "assistant", 2)]
    mates = BatchMates(kind="batch", turn="p", mates=("q", "r"))
    return with_events(group(turns, ["p", "q", "r", "s"]), mates)


TWINS = _twins()

GROUPS = {
    "conversation": _conversation(),
    "beam": _beam(),
    "preempted": _preempted(),
    "batch": _batch(),
    "tiers": _tiers(),
    "empty-turns": _empty_turns(),
    # An answer over two points of a track grid of 64, continued.
    "long-decode": chain(40, 100, 9, 3),
}

#: Two answers in windows: each accepted count, rejected drafts in a row, steps without drafts, and a turn that goes on.
WINDOWS = windowed(
    chain(70, 40, 20, 9, 3, 6),
    {"a0": [(3, 0), (3, 1), (3, 2), (3, 3), (0, 0), (1, 0), (1, 1), (5, 4), (5, 0), (5, 5)], "a1": [(2, 2)] * 3},
)
