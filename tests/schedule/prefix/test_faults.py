"""Faults of ownership planted in plans of every policy; the simulator objects to each, and to no plan without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.faults import ownership
from replaycheck.faults.steps import Steps
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import CheckpointPolicy, Compiler
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.state_probes.groups import GROUPS
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, arm_of

Change = Callable[[Steps], Steps]

DOUBLE = SglangPolicy(cache=EXTRA_BUFFER, track_interval=64)
EXACT_ENDS = SglangPolicy(cache=NO_BUFFER)
BLOCKS = VllmPolicy(cache="vllm-align", block=32, retain="all")
NONE = VllmPolicy(cache="vllm-none")
TURN = CheckpointPolicy(every=64, turn_end=True)
SMALL = CheckpointPolicy(every=64, turn_end=True, capacity=2)


CASES: list[tuple[Change, str, Policy, str]] = [
    (ownership.no_clear_on_reuse, "preempted", NONE, "a row from 0 reads slot"),
    (ownership.hit_without_a_restore, "conversation", TURN, "which was freed"),
    (ownership.beams_share_one_slot, "beam", NONE, "a row from"),
    (ownership.fork_from_a_sibling, "beam", NONE, "means"),
    (ownership.other_buffer_is_stored, "long-decode", DOUBLE, "means 128 tokens"),
    (ownership.snapshot_of_the_running_slot, "conversation", EXACT_ENDS, "means"),
    (ownership.snapshot_is_never_written, "conversation", DOUBLE, "which nothing wrote"),
    (ownership.source_evicted_before_the_copy, "conversation", TURN, "which was freed"),
    (ownership.evicted_slot_is_still_hit, "conversation", SMALL, "means"),
    (ownership.stored_slot_is_reused, "conversation", TURN, "is stored in"),
    (ownership.no_copy_to_the_next_block, "conversation", BLOCKS, "is stored in"),
    (ownership.label_is_a_block_end_that_no_call_ended_at, "conversation", BLOCKS, "means"),
    (ownership.swapped_back_from_another_slot, "preempted", NONE, "means"),
    (ownership.aborted_load_is_used, "tiers", TURN, "reads slot"),
    (ownership.slot_freed_twice, "conversation", TURN, "twice"),
    (ownership.null_slot_is_written, "conversation", TURN, "null slot"),
]


def spoiled(fault: Change, name: str, policy: Policy) -> tuple[Schedule, Schedule]:
    right = compile_schedule(GROUPS[name], arm_of(Compiler.WARM, policy))
    return right, replace(right, steps=tuple(fault(list(right.steps))))


@pytest.mark.parametrize(("fault", "name", "policy", "complaint"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_planted_fault_is_a_problem(fault: Change, name: str, policy: Policy, complaint: str) -> None:
    right, wrong = spoiled(fault, name, policy)
    assert simulate(right).problems == []
    assert wrong != right
    assert any(complaint in problem for problem in simulate(wrong).problems), simulate(wrong).problems
