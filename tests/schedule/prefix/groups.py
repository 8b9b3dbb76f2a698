"""Random groups with events."""

from __future__ import annotations

from hypothesis import strategies as st

from replaycheck.schema.trace import AbortedLoad, BatchMates, Event, Fork, Group, Offload, Preemption, Turn
from replaycheck.state_probes.groups import group, shared_answers, turn, with_events


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
            event = {"after": draw(st.integers(0, 130)), "resume": draw(st.sampled_from(["recompute", "swap"]))}
            events.append(Preemption.model_validate({"kind": "preemption", "turn": name, **event}))
        if draw(st.integers(0, 3)) == 0:
            mates = tuple(dict.fromkeys(draw(st.lists(st.sampled_from(asked), max_size=3))))
            events.append(BatchMates(kind="batch", turn=name, mates=mates))
        if draw(st.integers(0, 4)) == 0:
            events.append(Offload(kind="offload", turn=name))
        if draw(st.integers(0, 6)) == 0:
            events.append(AbortedLoad(kind="aborted-load", turn=name))
    return with_events(group(turns, asked), *events)
