"""A shared prefix is computed once by an arm that reuses states, and by a cold one for each request."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from replaycheck import assets
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import group, turn
from replaycheck.subjects.null import NullSubject
from replaycheck.traces.read import read_groups
from tests.schedule.trees import arm

REUSING = (Compiler.SPLIT, Compiler.SPLIT_ROUNDED, Compiler.WARM)
PREFIX = 64
"""BOS, the role, 60 letters, the turn's end and the next role: one chunk, so the grid has a state exactly where it ends."""


def computed(schedules: Iterable[Schedule]) -> int:
    """As result.json has it."""
    return sum(recording.computed_tokens for recording in NullSubject().replay(list(schedules)))


def unique(schedules: Iterable[Schedule]) -> int:
    """Different prefixes that are ever an input, over the paths of a group."""
    return sum(
        len({plan.tokens[:end] for plan in each.requests for end in range(1, plan.computed_end + 1)})
        for each in schedules
    )


def asked(schedules: Iterable[Schedule]) -> int:
    return sum(plan.computed_end for each in schedules for plan in each.requests)


def tree() -> Group:
    """Three questions on one system turn, the first followed up: the same 64 tokens before each."""
    turns = [turn("s", None, "system", PREFIX - 4)]
    for name, length in (("x", 20), ("y", 90), ("z", 1)):
        turns += [turn(f"{name}u", "s", "user", length), turn(f"{name}a", f"{name}u", "assistant", 7)]
    turns += [turn("v", "xa", "user", 11), turn("b", "v", "assistant", 5)]
    return group(turns, ["xa", "ya", "za", "b"])


@pytest.mark.parametrize("compiler", REUSING, ids=str)
def test_a_prefix_that_ends_on_a_checkpoint_is_computed_once(compiler: Compiler) -> None:
    plans = [compile_schedule(tree(), arm(compiler))]
    starts = [plan.start for plan in plans[0].requests]
    assert starts == [0, PREFIX, PREFIX, plans[0].requests[0].computed_end]
    assert computed(plans) == unique(plans)


def test_cold_computes_it_for_each_request() -> None:
    plans = [compile_schedule(tree(), arm(Compiler.COLD))]
    assert computed(plans) == asked(plans) == unique(plans) + 2 * PREFIX + plans[0].requests[0].computed_end


@pytest.mark.parametrize("compiler", REUSING, ids=str)
def test_what_is_computed_again_lies_behind_the_last_checkpoint(compiler: Compiler) -> None:
    """The quick suite: prefixes end off the grid, too, and a fork inside a chunk has no state where it leaves the path."""
    plans = [compile_schedule(each, arm(compiler)) for each in read_groups(assets.trace_suite("quick"))]
    assert computed(plans) > unique(plans)
    # Measured: 4,329 tokens where the trees have 4,117; a cold arm computes 11,591.
    assert computed(plans) < 1.06 * unique(plans)
    assert asked(plans) > 2.8 * unique(plans)
