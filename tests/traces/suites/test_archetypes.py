"""Each archetype is valid for any length of answers, does what its name says, and keeps its shape over seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from replaycheck.schedule.requests import plan_group
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.schema.trace import Fork, Group, Offload, Preemption, Speculation
from replaycheck.traces.relations import Kind, relations
from replaycheck.traces.suites.archetypes.table import ARCHETYPES
from replaycheck.traces.suites.catalog import SUITES
from replaycheck.traces.suites.sizes import LARGE, MEDIUM, SIZES, SMALL
from replaycheck.traces.tree import request_paths
from replaycheck.traces.write import dump_group

Build = Callable[..., list[Group]]
POLICY = CheckpointPolicy(every=64, turn_end=True)


def shape(groups: list[Group]) -> object:
    return [
        (group.group, [[(turn.id, turn.parent, turn.role) for turn in trace.turns] for trace in group.traces],
         group.requests)
        for group in groups
    ]  # fmt: skip


def kinds(groups: list[Group]) -> Counter[str]:
    return Counter(each.kind for group in groups for each in relations(group))


def made(build: Build, name: str, size: str = "small", **options: object) -> list[Group]:
    return build(SUITES[name].make(size, 0), **options)


@pytest.mark.parametrize("name", ["archetypes", "boundary", "ci"])
def test_every_suite_is_valid_and_planned_for_any_length_of_answers(name: str, build: Build, fill: Callable) -> None:
    groups = made(build, name, fill=fill)
    hits = {group.group: plan_group(group, POLICY).hits for group in groups}
    # Prompts under 64 tokens leave nothing on the grid, and a beam has one prompt.
    without = {group for group, count in hits.items() if not count}
    assert without <= {"small.boundary.again0", "small.parallel_sampling_beam.beam"}
    assert len({group.group for group in groups}) == len(groups)


@pytest.mark.parametrize("size", ["medium", "large"])
def test_larger_sizes_are_valid_and_fit_the_model(size: str, build: Build) -> None:
    groups = [group for name in ("archetypes", "boundary") for group in made(build, name, size)]
    assert max(path.end for group in groups for path in request_paths(group)) <= 8192, "the model's context"


def test_large_has_the_lengths_of_the_list_and_small_about_a_tenth(build: Build) -> None:
    prompts = {
        size: sum(path.prompt for group in made(build, "archetypes", size) for path in request_paths(group))
        for size in SIZES
    }
    # The list of archetypes adds up to 326,681 tokens of prompts; grids, legs and drafts have more requests here.
    assert 300_000 < prompts["large"] < 500_000
    assert 0.08 < prompts["small"] / prompts["large"] < 0.15
    assert 0.25 < prompts["medium"] / prompts["large"] < 0.4
    assert (SMALL.tokens(1024), MEDIUM.tokens(1024), LARGE.tokens(1024)) == (256, 512, 1024)


@pytest.mark.parametrize("name", ["archetypes", "boundary", "ci"])
def test_a_seed_gives_the_same_suite_and_another_one_other_texts(name: str, build: Build) -> None:
    once, again = made(build, name), made(build, name)
    assert list(map(dump_group, once)) == list(map(dump_group, again))
    other = build(SUITES[name].make("small", 1))
    one, two = ({turn.text for group in suite for trace in group.traces for turn in trace.turns
                 if turn.role != "assistant" and len(turn.text) > 40} for suite in (once, other))  # fmt: skip
    # Short texts of a few templates meet now and then.
    assert len(one & two) < 0.05 * len(one)


@pytest.mark.parametrize("name", [name for name in ARCHETYPES if name not in ("parallel_sampling_beam",)])
def test_another_seed_has_the_same_shape(name: str, build: Build) -> None:
    assert shape(made(build, name)) == shape(build(SUITES[name].make("small", 5)))


def test_ci_has_64_clusters_with_texts_of_their_own_and_each_hits(build: Build) -> None:
    groups = made(build, "ci")
    clusters = [trace.cluster or trace.id for group in groups for trace in group.traces]
    assert len(set(clusters)) >= 64
    firsts = Counter(
        trace.turns[-2].text for group in groups for trace in group.traces if len(trace.turns[-2].text) > 16
    )
    assert max(firsts.values()) == 1
    assert all(plan_group(group, CheckpointPolicy(prompt_end=True)).hits for group in groups)


def test_chunk_edges_restore_and_end_where_they_say(build: Build, fill: Callable) -> None:
    for group in made(build, "chunk_edges", "large", fill=fill):
        first, *others = request_paths(group)
        position = int(group.group.rpartition(".p")[2])
        assert first.prompt == position == first.end - 1, "an empty answer ends where its prompt does"
        assert [path.prompt - position for path in others] == [5, 62, 63, 64, 65, 66, 127, 128, 129]
        plans = plan_group(group, CheckpointPolicy(turn_end=True)).requests[1:]
        assert [plan.restore.position for plan in plans if plan.restore] == [position] * 9
        assert {len(path.answer) - 1 for path in others} == {1, 4, 62, 65}


def test_boundary_sends_prompts_again_one_and_two_tokens_past_the_grid(build: Build) -> None:
    plans = [plan_group(group, POLICY) for group in made(build, "boundary") if ".again" in group.group]
    tails = Counter(
        request.prompt - request.restore.position for plan in plans for request in plan.requests if request.restore
    )
    assert {1, 2, 63} <= set(tails)


def test_boundary_answers_end_round_the_grid(build: Build, fill: Callable) -> None:
    (group,) = (group for group in made(build, "boundary", fill=fill) if group.group.endswith("decoded"))
    ends = [path.end - 1 for path in request_paths(group)][::2]
    assert {63, 64, 65, 127, 128, 129, 255, 256, 257} <= set(ends)


def test_reasoning_is_not_in_the_next_prompt(build: Build) -> None:
    assert kinds(made(build, "reasoning_stripped")) == {Kind.FIRST: 1, Kind.REPLACE: 3}


def test_compaction_keeps_the_system_turn_and_returns_to_the_old_branch(build: Build) -> None:
    (group,) = made(build, "context_compaction", "large")
    found = list(relations(group))
    assert [each.kind for each in found].count(Kind.RETURN) == 1
    (pulled,) = (each for each in found if each.kind is Kind.PULL_BACK)
    assert pulled.shared == pulled.static


def test_edits_pull_back_and_a_regenerated_answer_has_no_new_token(build: Build) -> None:
    assert kinds(made(build, "edit_earlier_turn"))[Kind.PULL_BACK] >= 3
    found = [each for group in made(build, "regenerate_and_fork") for each in relations(group)]
    assert {each.new for each in found if each.kind in (Kind.REGENERATE, Kind.AGAIN)} == {0}
    assert Kind.RETURN in {each.kind for each in found}


def test_the_beam_drops_and_duplicates(build: Build, fill: Callable) -> None:
    samples, beam = made(build, "parallel_sampling_beam", "large", fill=fill)
    forks = [event for event in beam.traces[0].events if isinstance(event, Fork)]
    assert [fork.offset for fork in forks] == [0, 0, 0, *range(7, 64, 7)]
    lengths = Counter(len(path.answer) - 1 for path in request_paths(beam))
    assert lengths == {70: 4, **dict.fromkeys(range(7, 64, 7), 1)}
    assert [event.offset for event in samples.traces[0].events if isinstance(event, Fork)] == [0, 0, 0]


def test_speculation_accepts_all_none_and_some(build: Build) -> None:
    group = made(build, "spec_decode", "large")[0]
    answers: dict[str, list[int]] = {}
    for event in group.traces[0].events:
        assert isinstance(event, Speculation)
        answers.setdefault(event.turn, []).append(event.accepted)
    everything, nothing, turns, ramp, _ = answers.values()
    assert set(everything[:-1]) == {4}
    assert set(nothing) == {0}
    assert turns[:4] == [4, 0, 4, 0]
    assert ramp[:8] == [0, 1, 2, 3, 4, 3, 2, 1]


def test_preemption_stops_prompts_and_answers_where_it_says(build: Build) -> None:
    (group,) = made(build, "preemption", "large")
    stops = {}
    for trace in group.traces:
        (event,) = (each for each in trace.events if isinstance(each, Preemption))
        (path, _) = [path for path in request_paths(group) if path.trace == trace.id]
        stops[trace.id.rpartition(".")[2]] = event.after - path.prompt if event.after > path.prompt else event.after
    wanted = {
        "prompt1": 1,
        "prompt63": 63,
        "prompt64": 64,
        "prompt200": 200,
        "answer1": 1,
        "answer63": 63,
        "answer65": 65,
    }
    assert stops == {f"{how}-{point}": count for point, count in wanted.items() for how in ("swap", "again")}


def test_sub_agents_work_while_the_parent_waits(build: Build) -> None:
    (group,) = made(build, "subagent_fanout")
    parent, children = group.traces
    assert {trace.cluster for trace in group.traces} == {"small.subagent_fanout"}
    assert [isinstance(event, Offload) for event in parent.events] == [True]
    order = [request.trace for request in group.requests]
    assert order[2:-3] == [children.id] * 4
    reports = [turn.text for turn in parent.turns if turn.text.startswith("report: ")]
    texts = {turn.text for turn in children.turns}
    assert reports
    assert all(text.removeprefix("report: ") in texts for text in reports)


def test_eviction_asks_forwards_and_backwards(build: Build) -> None:
    (group,) = made(build, "eviction_pressure")
    order = [int(request.trace.rpartition(".v")[2]) for request in group.requests]
    assert order == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4]
    few = plan_group(group, POLICY.model_copy(update={"capacity": 4}))
    assert few.hits < plan_group(group, POLICY).hits
