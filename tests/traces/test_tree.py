"""Token paths: where prompts and answers lie, how branches are numbered; files are read as they were written."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Branch, Group, Request, Role, Sampled, Trace, Turn
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import Node, TraceTree, request_paths
from replaycheck.traces.vocabulary import ASSISTANT, BOS, END, NAME, SYSTEM, USER, decode, turn_tokens
from replaycheck.traces.write import write_groups

TEXT = st.text(st.characters(max_codepoint=127), max_size=12)


def test_a_path_by_hand(group: dict[str, Any]) -> None:
    paths = {path.turn: path for path in request_paths(Group.model_validate(group))}
    first = paths["a1"]
    assert first.tokens == (
        BOS, SYSTEM, *b"Be brief.", END, USER, *b"Why?", END, ASSISTANT, *b"Because.", END
    )  # fmt: skip
    assert first.nodes == (Node("s", 1, 12), Node("u1", 12, 18), Node("a1", 18, 28))
    assert (first.prompt, first.end, first.branch, first.turn_index) == (19, 28, 0, 0)
    assert decode(first.answer) == "Because.<|end|>"
    assert (paths["a1b"].branch, paths["a2"].branch, paths["a2"].turn_index) == (1, 0, 1)
    assert paths["a2"].answer == (END,)


def test_branches_are_numbered_in_file_order() -> None:
    parents = {"r": None, "a": "r", "b": "r", "aa": "a", "ba": "b", "bb": "b", "ab": "a", "q": None}
    turns = tuple(
        Turn(id=name, parent=parent, role="user", text="", tokens=(USER, END)) for name, parent in parents.items()
    )
    numbers = {"r": 0, "a": 0, "aa": 0, "b": 1, "ba": 1, "bb": 2, "ab": 3, "q": 4}
    assert TraceTree(Trace(id="t", turns=turns)).branches == numbers


@pytest.mark.parametrize("name", ["u1", "nobody"])
def test_only_answers_have_a_path(name: str, group: dict[str, Any]) -> None:
    tree = TraceTree(Group.model_validate(group).traces[0])
    with pytest.raises(UsageError, match=f"{name!r} is no assistant turn of trace 't'"):
        tree.path(name)


@st.composite
def trees(draw: st.DrawFn) -> Trace:
    """Any valid tree: each turn hangs on any earlier one, an answer never on nothing."""
    turns: list[Turn] = []
    for index in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from([None, *(turn.id for turn in turns)]))
        roles: list[Role] = ["system", "user", "tool"] if parent is None else ["user", "assistant", "tool"]
        role, text = draw(st.sampled_from(roles)), draw(TEXT)
        turns.append(
            Turn(
                id=f"n{index}",
                parent=parent,
                role=role,
                text=text,
                tokens=tuple(turn_tokens(role, text)),
                sampled=Sampled(model="m", seed=index, temperature=0.5, limit=99) if draw(st.booleans()) else None,
            )
        )
    last = turns[-1].id
    turns.append(Turn(id="end", parent=last, role="assistant", text="", tokens=(ASSISTANT, END)))
    events = (Branch(kind="branch", turn=last),) if draw(st.booleans()) else ()
    return Trace(id="t", turns=tuple(turns), events=events, cluster=draw(st.sampled_from([None, "c"])))


def answers(trace: Trace) -> list[str]:
    return [turn.id for turn in trace.turns if turn.role == "assistant"]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    trace = draw(trees())
    wanted = draw(st.lists(st.sampled_from(answers(trace)), min_size=1, max_size=6))
    return Group(
        schema="replaycheck.trace/1",
        group=draw(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")),
        archetype=draw(st.text(max_size=5)),
        vocabulary=NAME,
        traces=(trace,),
        requests=tuple(Request(trace="t", turn=turn) for turn in wanted),
    )


@given(st.lists(groups(), min_size=1, max_size=3, unique_by=lambda group: group.group))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, written: list[Group]) -> None:
    path = tmp_path_factory.mktemp("identity") / "traces.jsonl"
    write_groups(path, written)
    assert list(read_groups(path)) == written


@given(groups())
def test_paths_are_consistent(group: Group) -> None:
    tree = TraceTree(group.traces[0])
    for request, path in zip(group.requests, request_paths(group), strict=True):
        assert path.turn == request.turn
        assert path.tokens[path.prompt - 1] == ASSISTANT
        assert path.tokens[path.prompt :] == tree.turns[path.turn].tokens[1:]
        ends = [1, *(node.end for node in path.nodes)]
        assert [node.start for node in path.nodes] == ends[:-1]
        assert ends[-1] == path.end
        for node in path.nodes:
            assert path.tokens[node.start : node.end] == tree.turns[node.turn].tokens
            assert tree.starts[node.turn] == node.start


@given(trees())
def test_a_branch_is_one_line_of_the_tree(trace: Trace) -> None:
    tree = TraceTree(trace)
    assert sorted(set(tree.branches.values())) == list(range(max(tree.branches.values()) + 1))
    for number in set(tree.branches.values()):
        members = [turn for turn in trace.turns if tree.branches[turn.id] == number]
        assert all(child.parent == parent.id for parent, child in pairwise(members))


def test_a_long_conversation_needs_no_recursion(tmp_path: Path) -> None:
    turns = [
        Turn(id=f"n{i}", parent=f"n{i - 1}" if i else None, role="user", text="", tokens=(USER, END))
        for i in range(3_000)
    ]
    turns.append(Turn(id="a", parent="n2999", role="assistant", text="", tokens=(ASSISTANT, END)))
    assert TraceTree(Trace(id="t", turns=tuple(turns))).path("a").end == 1 + 2 * 3_001
