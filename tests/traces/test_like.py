"""Drawing traces like others: the same shapes, scaled lengths, bounded memory, no text of the source."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from replaycheck import assets
from replaycheck.errors import UsageError
from replaycheck.schedule.requests import plan_group
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.traces.like import Likeness, draw_groups, draw_like, measure
from replaycheck.traces.pools import Reservoir
from replaycheck.traces.read import read_groups
from replaycheck.traces.relations import Kind
from replaycheck.traces.stats import TraceStats
from replaycheck.traces.suites.draw import Draw
from replaycheck.traces.write import dump_group

SOURCE = assets.trace_suite("quick")


def likeness(count: int, scale: float) -> Likeness:
    source, pools = measure(SOURCE, 0)
    drawn = TraceStats(policies=())
    for group in draw_groups(pools, count, scale, 0):
        drawn.add(group)
    return Likeness(source, drawn, scale)


def test_what_is_drawn_is_valid_and_can_be_planned(tmp_path: Path) -> None:
    out = tmp_path / "like.jsonl"
    found = draw_like(SOURCE, out, 40, 1.0, 0)
    groups = read_groups(out)
    assert (len(groups), found.drawn.groups) == (40, 40)
    assert sum(plan_group(group, CheckpointPolicy(every=64)).hits for group in groups) > 40


@pytest.mark.parametrize("scale", [0.25, 1.0, 3.0])
def test_what_was_measured_comes_back_at_any_scale(scale: float) -> None:
    found = likeness(400, scale)
    tests = found.tests()
    # With 400 traces 0.1 is 1.5 times the 5 % point of the statistic for answers and new tokens, of 46 and 38 values
    # in the source; what is drawn has them all.
    for name in ("turns", "output", "new", "traces"):
        assert tests[name].distance is not None
        assert (tests[name].distance or 0) < 0.1, name
    assert (tests["kinds"].distance or 0) < 0.2
    assert {Kind.RETURN, Kind.PULL_BACK, Kind.AGAIN, Kind.REGENERATE, Kind.APPEND} <= set(found.drawn.kinds)


def test_a_shifted_length_is_noticed() -> None:
    """The comparison can fail: lengths at another scale than the one that is claimed."""
    found = likeness(400, 1.0)
    wrong = Likeness(found.source, found.drawn, 2.0).tests()["new"]
    assert (wrong.distance or 0) > 0.2
    assert (wrong.p or 0) < 0.01


def test_a_seed_gives_the_same_groups_whatever_the_count() -> None:
    _, pools = measure(SOURCE, 3)
    few = [dump_group(group) for group in draw_groups(pools, 5, 0.5, 3)]
    many = [dump_group(group) for group in draw_groups(pools, 9, 0.5, 3)]
    assert many[:5] == few
    assert few != [dump_group(group) for group in draw_groups(pools, 5, 0.5, 4)]


def test_no_text_of_the_source_is_used() -> None:
    _, pools = measure(SOURCE, 0)
    theirs = {turn.text[:24] for group in read_groups(SOURCE) for trace in group.traces for turn in trace.turns}
    theirs = {text for text in theirs if len(text) == 24}
    for group in draw_groups(pools, 20, 1.0, 0):
        assert not {turn.text[:24] for trace in group.traces for turn in trace.turns} & theirs


def test_several_traces_of_a_group_are_interleaved() -> None:
    _, pools = measure(assets.trace_suite("archetypes"), 0)
    groups = [group for group in draw_groups(pools, 100, 0.25, 0) if len(group.traces) > 1]
    assert groups
    runs = [[request.trace for request in group.requests] for group in groups]
    assert any(run != sorted(run) for run in runs)
    assert all({request.trace for request in group.requests} == {t.id for t in group.traces} for group in groups)


def test_a_source_without_traces_is_said(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(UsageError, match="the file is empty"):
        draw_like(empty, tmp_path / "out.jsonl", 1, 1.0, 0)
    assert not (tmp_path / "out.jsonl").exists()


def test_memory_does_not_grow_with_the_groups(tmp_path: Path) -> None:
    """Four times the groups, the same peak: 200 KB is what counters of new lengths may add; a group takes 60 KB."""
    peaks = []
    for count in (50, 200):
        tracemalloc.start()
        draw_like(SOURCE, tmp_path / f"{count}.jsonl", count, 1.0, 0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000


def test_a_reservoir_is_bounded_and_even() -> None:
    pool: Reservoir[int] = Reservoir(Draw(0, "test"), size=100)
    for value in range(10_000):
        pool.put(value)
    assert len(pool.items) == 100
    # The mean of 100 of 10,000 values has a standard deviation of 289.
    assert abs(sum(pool.items) / 100 - 5000) < 5 * 289
