"""Groups with events: random ones, and the archetypes' operations by hand."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from replaycheck.schema.trace import AbortedLoad, BatchMates, Event, Fork, Group, Offload, Preemption, Turn
from replaycheck.traces.vocabulary import turn_tokens
from tests.schedule.trees import chain, group, turn


def with_events(plain: Group, *events: Event) -> Group:
    """The group with these events on its first trace."""
    trace = plain.traces[0].model_copy(update={"events": events})
    return plain.model_copy(update={"traces": (trace, *plain.traces[1:])})


def shared_answers(parent: str, names: Sequence[str], lengths: Sequence[int], shared: Sequence[int]) -> list[Turn]:
    """Answers to one turn; each begins with ``shared`` letters of the first one."""
    turns = []
    for name, length, same in zip(names, lengths, shared, strict=True):
        text = (names[0] * same)[:same] + (name.upper() * length)[: max(0, length - same)]
        tokens = tuple(turn_tokens("assistant", text))
        turns.append(Turn(id=name, parent=parent, role="assistant", text=text, tokens=tokens))
    return turns


@st.composite
def busy_groups(draw: st.DrawFn) -> Group:
    """Trees of questions with up to three answers, some forked, some preempted, some together, asked for in any order."""
    lengths = st.integers(0, 90)
    turns: list[Turn] = []
    answers: list[str] = []
    events: list[Event] = []
    for i in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from([None, *answers]))
        turns.append(turn(f"u{i}", parent, "user", draw(lengths)))
        size, count = draw(lengths), draw(st.integers(1, 3))
        names = [f"a{i}.{j}" for j in range(count)]
        shared = [size, *(draw(st.integers(0, size)) for _ in names[1:])]
        turns += shared_answers(f"u{i}", names, [size, *(draw(st.integers(s, 95)) for s in shared[1:])], shared)
        for name, same in zip(names[1:], shared[1:], strict=True):
            if draw(st.booleans()):
                events.append(Fork(kind="fork", turn=name, source=names[0], offset=draw(st.integers(0, same))))
        answers += names
    asked = draw(st.lists(st.sampled_from(answers), min_size=1, max_size=7))
    asked += [event.source for event in events if isinstance(event, Fork)]
    for name in set(asked):
        if draw(st.integers(0, 3)) == 0:
            resume = draw(st.sampled_from(["recompute", "swap"]))
            events.append(Preemption(kind="preemption", turn=name, after=draw(st.integers(0, 130)), resume=resume))
        if draw(st.integers(0, 3)) == 0:
            mates = tuple(dict.fromkeys(draw(st.lists(st.sampled_from(asked), max_size=3))))
            events.append(BatchMates(kind="batch", turn=name, mates=mates))
        if draw(st.integers(0, 4)) == 0:
            events.append(Offload(kind="offload", turn=name))
        if draw(st.integers(0, 6)) == 0:
            events.append(AbortedLoad(kind="aborted-load", turn=name))
    return with_events(group(turns, asked), *events)


def _conversation() -> Group:
    """Three turns, a resent prompt, and a second question on the first answer (archetypes 1, 2, 4, 5)."""
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
    """A beam search that drops, duplicates and reorders at tokens 7 and 14 (archetype 7)."""
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
    """Taken off in the prompt and in the answer, computed again and swapped, others in between (archetype 9)."""
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
    """Five requests on one system prompt; two at once read one state, one prompt is one token longer than it (10, 12)."""
    turns = [turn("y", None, "system", 126), turn("u0", "y", "user", 4), turn("a0", "u0", "assistant", 3)]
    for i, (size, answer) in enumerate(((0, 4), (17, 12), (90, 0), (33, 7)), 1):
        turns += [turn(f"u{i}", "y", "user", size), turn(f"a{i}", f"u{i}", "assistant", answer)]
    mates = BatchMates(kind="batch", turn="a1", mates=("a2", "a3", "a4"))
    return with_events(group(turns, ["a0", "a1", "a2", "a3", "a4"]), mates)


def _tiers() -> Group:
    """States go to the host and come back, once with the load aborted; other requests take the slots (archetypes 15, 16)."""
    turns = [turn("u", None, "user", 140), turn("a", "u", "assistant", 10)]
    for name, parent, size in (("v", "a", 20), ("w", "v", 40), ("x", None, 70)):
        turns += [turn(f"u{name}", parent, "user", size), turn(name, f"u{name}", "assistant", 6)]
    events = [
        Offload(kind="offload", turn="a"),
        Offload(kind="offload", turn="v"),
        AbortedLoad(kind="aborted-load", turn="w"),
    ]
    return with_events(group(turns, ["a", "x", "v", "x", "w"]), *events)


def _empty_turns() -> Group:
    """Questions and answers without text; prompts a token apart (archetype 13)."""
    turns: list[Turn] = []
    parent = None
    for i, (user, answer) in enumerate(((60, 0), (0, 30), (1, 0), (0, 0), (31, 1))):
        turns += [turn(f"u{i}", parent, "user", user), turn(f"a{i}", f"u{i}", "assistant", answer)]
        parent = f"a{i}"
    return group(turns, [f"a{i}" for i in range(5)])


GROUPS = {
    "conversation": _conversation(),
    "beam": _beam(),
    "preempted": _preempted(),
    "batch": _batch(),
    "tiers": _tiers(),
    "empty-turns": _empty_turns(),
    # An answer over two points of a track grid of 64, continued (archetype 17).
    "long-decode": chain(40, 100, 9, 3),
}
