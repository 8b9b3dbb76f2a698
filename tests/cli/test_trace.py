"""The trace verbs, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.traces.suites.quick import build_quick
from replaycheck.traces.synth import Sample
from replaycheck.traces.write import write_groups


@pytest.fixture
def quick(fake_sample: Sample, tmp_path: Path) -> Path:
    path = tmp_path / "quick.jsonl"
    write_groups(path, build_quick(fake_sample, "digest", seed=0))
    return path


def test_show_draws_every_group(quick: Path, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "show", quick)
    assert outcome.code == 0
    assert "├─a1 assistant" in outcome.out
    assert "groups 8, traces 8" in outcome.out


def test_show_one_group(quick: Path, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "show", quick, "--group", "edges_64")
    assert "prompt 65 = 1·64 + 1" in outcome.out
    assert "edges_128" not in outcome.out


def test_show_prints_one_json_object(quick: Path, replaycheck: Callable) -> None:
    shown = json.loads(replaycheck("trace", "show", quick, "--json").out)
    assert shown["totals"]["groups"] == len(shown["groups"]) == 8


def test_an_unknown_group_names_the_groups(quick: Path, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "show", quick, "--group", "nope")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--group 'nope' isn't in" in outcome.err
    assert "'chat_long_system', 'agent_tool_loop'" in outcome.err


@pytest.mark.parametrize(
    ("source", "message"),
    [("none.jsonl", "trace file 'none.jsonl' isn't there"), ("suite:nope", "trace suite 'nope' is unknown")],
)
@pytest.mark.parametrize("verb", ["show", "validate"])
def test_a_source_that_is_not_there(verb: str, source: str, message: str, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", verb, source)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


def test_a_valid_file_passes(quick: Path, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "validate", quick)
    assert (outcome.code, outcome.out, outcome.err) == (0, "8 groups valid, 0 not\n", "")


def test_validate_lists_every_problem_with_its_line(quick: Path, replaycheck: Callable) -> None:
    before = quick.read_text()
    quick.write_text("{\n" + before.replace('"vocabulary":"ascii-144"', '"vocabulary":"bpe"', 1) + "[]\n")
    outcome = replaycheck("trace", "validate", quick)
    assert (outcome.code, outcome.out) == (2, "7 groups valid, 3 not\n")
    assert [line.split(": ")[0].rsplit(":")[-1] for line in outcome.err.splitlines()] == ["1", "2", "10"]


def test_validate_as_json_is_one_object(quick: Path, replaycheck: Callable) -> None:
    quick.write_text("{\n")
    outcome = replaycheck("trace", "validate", quick, "--json")
    found = json.loads(outcome.out)
    assert (outcome.code, found["groups"], found["problems"][0]["line"]) == (2, 0, 1)


def test_many_problems_are_cut_short(quick: Path, replaycheck: Callable) -> None:
    quick.write_text("{\n" * 30)
    outcome = replaycheck("trace", "validate", quick)
    assert outcome.err.endswith("10 more problems; --json lists all\n")


def test_list_names_the_shipped_suites_and_presets(replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "list")
    assert outcome.code == 0
    assert "suite:quick  groups 8" in outcome.out
    assert "preset quick: suite:quick" in outcome.out
    listed = json.loads(replaycheck("trace", "list", "--json").out)
    assert listed["presets"]["quick"] == ["suite:quick"]


def test_the_shipped_suite_is_valid(replaycheck: Callable) -> None:
    assert replaycheck("trace", "validate", "suite:quick").code == 0
