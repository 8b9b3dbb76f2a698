"""What an export keeps, and that it says what it can't."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.export import export
from replaycheck.traces.importers import Context, Options, choose, import_groups
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import TraceTree


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def imported(name: str, path: Path) -> list[Group]:
    return list(import_groups(choose(name, [path]), Context(Options())))


@pytest.fixture
def small(group: dict[str, Any]) -> Group:
    return Group.model_validate(group)


def test_our_own_format_comes_back_the_same(quick_groups: list[Group], tmp_path: Path) -> None:
    count, log = export(quick_groups, "jsonl", tmp_path / "x.jsonl")
    assert (count, dict(log.dropped)) == (len(quick_groups), {})
    assert imported("auto", tmp_path / "x.jsonl") == list(read_groups(tmp_path / "x.jsonl")) == quick_groups


def test_openai_writes_each_path_and_says_that_forks_are_lost(small: Group, tmp_path: Path) -> None:
    count, log = export([small], "openai", tmp_path / "x.jsonl")
    paths = [[message["content"] for message in line["messages"]] for line in lines(tmp_path / "x.jsonl")]
    assert paths == [["Be brief.", "Why?", "Why not?"], ["Be brief.", "Why?", "Because.", "And then?", ""]]
    assert count == 2
    assert log.dropped["fork: the paths of a tree are conversations of their own"] == 1
    assert [texts(group) for group in imported("auto", tmp_path / "x.jsonl")] == paths


def texts(group: Group) -> list[str]:
    return [turn.text for turn in group.traces[0].turns]


def test_dag_keeps_forks_of_answers_and_lengths(small: Group, tmp_path: Path) -> None:
    log = export([small], "dag_jsonl", tmp_path / "x.jsonl")[1]
    written = lines(tmp_path / "x.jsonl")
    # The two answers to one prompt can't be a fork: before them nothing was answered.
    assert [line["session_id"] for line in written] == ["t.1", "t.2"]
    assert [turn["max_tokens"] for turn in written[0]["turns"]] == [9, 1]
    assert log.dropped["fork before the first answer: sessions share words only"] == 1
    assert log.dropped["words of an answer; the format holds its length"] == 3


def questions(group: Group) -> set[tuple[str, ...]]:
    """What was said on the way to each answer that was asked for, without the answers' words."""
    trees = {trace.id: TraceTree(trace) for trace in group.traces}
    return {
        tuple(
            f"{len(turn.tokens)}" if turn.role == "assistant" else turn.text for turn in trees[r.trace].lineage(r.turn)
        )
        for r in group.requests
    }


def test_dag_comes_back_with_the_same_tree(quick_groups: list[Group], tmp_path: Path) -> None:
    forking = next(group for group in quick_groups if group.group == "regenerate_and_fork")
    export([forking], "dag_jsonl", tmp_path / "x.jsonl")
    back = imported("auto", tmp_path / "x.jsonl")
    assert set().union(*map(questions, back)) == questions(forking)
    branches = [max(TraceTree(trace).branches.values()) for group in back for trace in group.traces]
    assert max(branches) == 1  # a1 is followed by u2 and by u2b


def test_events_repeats_and_order_that_are_lost_are_counted(group: dict[str, Any], tmp_path: Path) -> None:
    group["traces"][0]["events"].append({"kind": "offload", "turn": "a1"})
    group["requests"].append(group["requests"][0])
    log = export([Group.model_validate(group)], "openai", tmp_path / "x.jsonl")[1]
    assert log.dropped["event: offload"] == log.dropped["request that was made again"] == 1


def test_an_unknown_format_and_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format 'x' is unknown; allowed are 'dag_jsonl', 'openai' or 'jsonl'"):
        export([], "x", tmp_path / "x.jsonl")
    with pytest.raises(UsageError, match="nothing to write"):
        export([], "openai", tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()


def test_the_command_line(replaycheck: Callable, small: Group, tmp_path: Path) -> None:
    source = tmp_path / "small.jsonl"
    export([small], "jsonl", source)
    outcome = replaycheck("trace", "export", source, "--format", "openai", "--out", tmp_path / "o.jsonl", "--json")
    assert json.loads(outcome.out)["lines"] == 2
    outcome = replaycheck("trace", "export", source, "--format", "dag_jsonl", "--out", source)
    assert outcome.code == 2 and "is the file to export" in outcome.err
