"""The trace verbs, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck import assets
from replaycheck.replay import synthesise
from replaycheck.schema.trace import Group
from replaycheck.traces.read import read_groups
from replaycheck.traces.write import write_groups


@pytest.fixture
def quick(quick_groups: list[Group], tmp_path: Path) -> Path:
    path = tmp_path / "quick.jsonl"
    write_groups(path, quick_groups)
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


def test_stats_counts_and_prints_policies(replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "stats", "suite:quick")
    assert outcome.code == 0
    assert "8 groups, 46 requests, 10807 prompt tokens" in outcome.out
    assert "grid64+turn" in outcome.out
    record = json.loads(replaycheck("trace", "stats", "suite:quick", "--json", "--no-policies").out)
    assert (record["requests"], record["policies"]) == (46, {})


def test_stats_names_a_bad_line(quick: Path, replaycheck: Callable) -> None:
    quick.write_text(quick.read_text() + "{\n")
    outcome = replaycheck("trace", "stats", quick)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{quick}:9: " in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --suite NAME, to make a suite, or --like FILE"),
        (["--suite", "quick", "--like", "suite:quick"], "give either --suite NAME"),
        (["--suite", "nope", "--check"], "--suite 'nope' is unknown; suites that can be made are 'quick', "),
        (["--suite", "archetypes", "--size", "huge", "--check"], "--size 'huge' is unknown; sizes are 'small', "),
        (["--suite", "quick", "--size", "large", "--check"], "suite 'quick' comes in one size; leave --size out"),
        (["--suite", "quick", "--seed", "3", "--check"], "doesn't ship with this seed and model, so there is nothing"),
        (["--suite", "quick", "--check", "--out", "x.jsonl"], "--check writes nothing; leave --out out"),
        (["--suite", "quick"], "no --out FILE was given"),
        (["--suite", "quick", "--out", "none/x.jsonl"], "there is no folder 'none'; make it first"),
        (["--suite", "quick", "--count", "3", "--check"], "--count has no meaning with --suite; leave it out"),
        (["--like", "suite:quick", "--size", "small", "--out", "x.jsonl"], "--size has no meaning with --like"),
        (["--like", "none.jsonl", "--out", "x.jsonl"], "trace file 'none.jsonl' isn't there"),
        (["--suite", "quick", "--seed", "-1", "--check"], "-1 is not in the range x>=0"),
        (["--like", "suite:quick", "--count", "0", "--out", "x.jsonl"], "0 is not in the range x>=1"),
        (["--like", "suite:quick", "--scale", "0", "--out", "x.jsonl"], "0.0 is not in the range 0<x<=16"),
    ],
)
def test_synth_says_what_is_wrong(arguments: list[str], message: str, replaycheck: Callable) -> None:
    outcome = replaycheck("trace", "synth", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


def test_synth_overwrites_nothing(quick: Path, replaycheck: Callable) -> None:
    before = quick.read_bytes()
    for how in (["--suite", "quick"], ["--like", "suite:quick"]):
        outcome = replaycheck("trace", "synth", *how, "--out", quick)
        assert outcome.code == 2
        assert "is there already; name another file, or remove it first" in outcome.err
    assert quick.read_bytes() == before


def test_synth_like_writes_traces_and_compares(tmp_path: Path, replaycheck: Callable) -> None:
    out = tmp_path / "like.jsonl"
    outcome = replaycheck("trace", "synth", "--like", "suite:quick", "--count", 20, "--scale", 0.5, "--out", out)
    assert outcome.code == 0
    assert "20 groups drawn like 8; lengths of the source times 0.5" in outcome.out
    assert replaycheck("trace", "validate", out).out == "20 groups valid, 0 not\n"
    other = tmp_path / "other.jsonl"
    record = json.loads(
        replaycheck(
            "trace", "synth", "--like", "suite:quick", "--count", 20, "--scale", 0.5, "--out", other, "--json"
        ).out
    )
    assert other.read_bytes() == out.read_bytes()
    assert record["tests"]["new"]["n_source"] == 38


def test_synth_makes_what_ships(replaycheck: Callable) -> None:
    """The suite speculation is the shortest: five seconds of the oracle."""
    outcome = replaycheck("trace", "synth", "--suite", "speculation", "--check")
    assert (outcome.code, outcome.out) == (0, "3 groups made, the same bytes as speculation.jsonl, which ships\n")
    assert "suite speculation, small, seed 0: 3 groups, 9 answers" in outcome.err


def test_synth_sees_that_what_ships_is_not_what_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaycheck: Callable
) -> None:
    shipped = assets.trace_suite("speculation")
    changed = tmp_path / "speculation.jsonl"
    changed.write_text(shipped.read_text().replace("spec_edges", "spec_rims"))
    monkeypatch.setattr(assets, "trace_suites", lambda: {"speculation": changed})
    monkeypatch.setattr(synthesise, "make_suite", lambda *given: iter(read_groups(shipped)))
    outcome = replaycheck("trace", "synth", "--suite", "speculation", "--check", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["difference"] == "line 2: made is spec_edges, and the file has spec_rims"
    out = tmp_path / "out.jsonl"
    outcome = replaycheck("trace", "synth", "--suite", "speculation", "--out", out)
    assert outcome.code == 0
    assert "3 groups; they differ from speculation.jsonl, which ships: line 2" in outcome.out
    assert out.read_bytes() == shipped.read_bytes()
