"""What a request continues, on a trace made for it: every kind once, with its shares and distances."""

from __future__ import annotations

from replaycheck.schema.trace import TRACE_SCHEMA, Group, Request, Trace, Turn
from replaycheck.traces.relations import Kind, relations
from replaycheck.traces.vocabulary import NAME, turn_tokens


def turn(name: str, parent: str | None, role: str, size: int) -> Turn:
    text = "x" * size
    return Turn(id=name, parent=parent, role=role, text=text, tokens=tuple(turn_tokens(role, text)))  # type: ignore[arg-type]


def group(*wanted: str) -> Group:
    """``t/a3``: an answer of a trace. Turns end at: s 13, u1 25, a1 30, u2 42, a2 47, …"""
    turns = (
        turn("s", None, "system", 10),
        turn("u1", "s", "user", 10),
        turn("a1", "u1", "assistant", 3),
        turn("a1b", "u1", "assistant", 4),
        turn("u2", "a1", "user", 10),
        turn("a2", "u2", "assistant", 3),
        turn("t3", "a2", "tool", 20),
        turn("a3", "t3", "assistant", 3),
        turn("v2", "u2", "assistant", 1),
        turn("u4", "v2", "user", 5),
        turn("a4", "u4", "assistant", 3),
        turn("n", "s", "user", 7),
        turn("an", "n", "assistant", 3),
        turn("s2", None, "system", 2),
        turn("us", "s2", "user", 2),
        turn("as", "us", "assistant", 0),
    )
    traces = tuple(Trace(id=name, turns=turns) for name in ("t", "o"))
    requests = tuple(Request(trace=each.partition("/")[0], turn=each.partition("/")[2]) for each in wanted)
    return Group(schema=TRACE_SCHEMA, group="g", vocabulary=NAME, traces=traces, requests=requests)


def test_each_kind_of_request() -> None:
    found = list(relations(group("t/a1", "t/a1b", "t/a2", "t/a3", "t/a4", "t/an", "t/a3", "t/as")))
    assert [each.kind for each in found] == [
        Kind.FIRST, Kind.REGENERATE, Kind.RETURN, Kind.APPEND, Kind.PULL_BACK, Kind.PULL_BACK, Kind.AGAIN,
        Kind.PULL_BACK,
    ]  # fmt: skip
    assert [each.prompt for each in found] == [26, 26, 43, 70, 53, 23, 70, 10]
    # Behind the last turn that is shared, the next one's role token is, too, if the roles are equal.
    assert [each.shared for each in found] == [0, 26, 30, 47, 43, 14, 70, 2]
    assert [each.back for each in found] == [None, 1, 2, 1, 1, 1, 3, None]
    assert [each.whole for each in found] == [False, False, True, True, False, False, False, False]
    assert found[4].kept == 43 / 70
    assert [each.tool for each in found] == [False, False, False, True, False, False, True, False]
    assert {each.static for each in found} == {13, 5}
    assert found[0].new == 26
    assert found[2].output == 3


def test_an_answer_that_is_left_out_or_replaced_is_told_from_a_pull_back() -> None:
    first, second = list(relations(group("t/a2", "t/a4")))
    assert (first.kind, second.kind) == (Kind.FIRST, Kind.REPLACE)
    assert (second.shared, second.previous, second.kept, second.whole) == (43, 43, 1.0, False)


def test_a_system_turn_that_changed_shares_nothing() -> None:
    _, changed = list(relations(group("t/a1", "t/as")))
    assert (changed.shared, changed.previous, changed.back) == (2, 2, None), "BOS and the role"


def test_traces_of_a_group_are_apart_and_distances_count_all_requests() -> None:
    found = list(relations(group("t/a1", "o/a1", "o/a2", "t/a2")))
    assert [each.kind for each in found] == [Kind.FIRST, Kind.FIRST, Kind.APPEND, Kind.APPEND]
    assert [each.back for each in found] == [None, None, 1, 3]
    assert found[3].own_back == 1
    assert [each.switched for each in found] == [False, True, False, True]
