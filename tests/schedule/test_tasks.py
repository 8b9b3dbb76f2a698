"""Requests as tasks: which of them run together, and which request an event means."""

from __future__ import annotations

from collections.abc import Mapping

from replaycheck.schedule.tasks import make_tasks, waves
from replaycheck.schema.trace import BatchMates, Event, Fork, Group, Offload, Preemption, Request, Trace, Turn
from replaycheck.state_probes.groups import group, shared_answers, turn, with_events


def questions(count: int) -> Group:
    """So many questions a0, a1, … with an answer each, asked for in order."""
    turns: list[Turn] = []
    for i in range(count):
        turns += [turn(f"u{i}", None, "user", 4), turn(f"a{i}", f"u{i}", "assistant", 3)]
    return group(turns, [f"a{i}" for i in range(count)])


def together(count: int, mates: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
    events = [
        BatchMates(kind="batch", turn=f"a{index}", mates=tuple(f"a{other}" for other in others))
        for index, others in mates.items()
    ]
    return waves(make_tasks(with_events(questions(count), *events)))


def test_without_mates_requests_run_one_after_the_other() -> None:
    assert together(3, {}) == [[0], [1], [2]]


def test_mates_of_mates_run_together_in_their_own_order() -> None:
    assert together(5, {3: (1,), 4: (3,)}) == [[0], [1, 3, 4], [2]]
    assert together(5, {0: (4,), 1: (2,), 2: (4,)}) == [[0, 1, 2, 4], [3]]


def test_a_mate_that_nobody_asks_for_is_none() -> None:
    assert together(2, {0: (7,)}) == [[0], [1]]


def two_traces(*events: Event) -> Group:
    """Traces s and t with the answers a0 and a1 each, asked for in turn; the events are of t."""
    plain = questions(2)
    (trace,) = plain.traces
    other = Trace(id="s", turns=trace.turns)
    requests = tuple(Request(trace=name, turn=answer) for answer in ("a0", "a1") for name in ("s", "t"))
    mine = trace.model_copy(update={"events": events})
    return plain.model_copy(update={"traces": (other, mine), "requests": requests})


def test_a_mate_is_of_the_same_trace_if_that_has_one_of_this_name() -> None:
    assert waves(make_tasks(two_traces(BatchMates(kind="batch", turn="a0", mates=("a1",))))) == [[0], [1, 3], [2]]


def test_a_mate_that_only_another_trace_has_is_that_one() -> None:
    plain = two_traces(BatchMates(kind="batch", turn="a0", mates=("a1",)))
    requests = tuple(each for each in plain.requests if (each.trace, each.turn) != ("t", "a1"))
    assert waves(make_tasks(plain.model_copy(update={"requests": requests}))) == [[0], [1, 2]]


def test_an_event_means_the_first_request_for_its_turn_and_a_second_one_is_on_a_branch_of_its_own() -> None:
    plain = group(list(questions(2).traces[0].turns), ["a0", "a1", "a0", "a0"])
    events = (Preemption(kind="preemption", turn="a0", after=2), Offload(kind="offload", turn="a1"))
    tasks = make_tasks(with_events(plain, *events))
    assert [task.preemption is not None for task in tasks] == [True, False, False, False]
    assert [task.offload for task in tasks] == [False, True, False, False]
    assert [task.path.branch for task in tasks] == [0, 1, 2, 3]


def test_a_fork_shares_prefixes_with_its_source_in_its_own_trace() -> None:
    """Two traces with the same turns; the second answer is a fork of the first, from its third token on, in one of them."""
    turns = (turn("u", None, "user", 4), *shared_answers("u", ["p", "q"], [5, 5], [5, 2]))
    fork = Fork(kind="fork", turn="q", source="p", offset=2)
    traces = (Trace(id="s", turns=turns), Trace(id="t", turns=turns, events=(fork,)))
    requests = tuple(Request(trace=name, turn=answer) for name in ("s", "t") for answer in ("p", "q"))
    tasks = make_tasks(questions(1).model_copy(update={"traces": traces, "requests": requests}))
    numbers = [task.job.numbers for task in tasks]
    equal = [sum(a == b for a, b in zip(numbers[i], numbers[i + 1], strict=True)) for i in (0, 2)]
    # The prefix of no tokens, the prompt of 8, and what the fork has from its source.
    assert equal == [9, 11]


def test_an_event_of_a_turn_that_nobody_asks_for_means_nothing() -> None:
    plain = group(list(questions(2).traces[0].turns), ["a0"])
    [task] = make_tasks(with_events(plain, Offload(kind="offload", turn="a1"), Offload(kind="offload", turn="a0")))
    assert task.offload


def test_the_cluster_is_the_traces_own_or_its_name() -> None:
    plain = questions(1)
    (trace,) = plain.traces
    named = plain.model_copy(update={"traces": (trace.model_copy(update={"cluster": "shared"}),)})
    assert [make_tasks(each)[0].cluster for each in (plain, named)] == ["t", "shared"]
