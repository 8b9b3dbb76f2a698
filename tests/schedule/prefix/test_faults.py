"""Public faults planted in plans by hand; the simulator objects to each, and to no plan without one.

The names in brackets are the entries of the report list that docs/state-operations.md cites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Clear, Commit, Compute, Copy, CopyReason, Evict, Free, Row, Schedule, Step
from replaycheck.schema.arm import CheckpointPolicy, Compiler
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.state_probes.groups import GROUPS
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, arm_of

Steps = list[Step]
Fault = Callable[[Steps], Steps]

DOUBLE = SglangPolicy(cache=EXTRA_BUFFER, track_interval=64)
EXACT_ENDS = SglangPolicy(cache=NO_BUFFER)
BLOCKS = VllmPolicy(cache="vllm-align", block=32, retain="all")
NONE = VllmPolicy(cache="vllm-none")
TURN = CheckpointPolicy(every=64, turn_end=True)
SMALL = CheckpointPolicy(every=64, turn_end=True, capacity=2)


def _first(steps: Steps, wanted: Callable[[Step], bool]) -> int:
    return next(i for i, step in enumerate(steps) if wanted(step))


def _copies(reason: CopyReason) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Copy) and step.reason is reason


def _last(steps: Steps, wanted: Callable[[Step], bool]) -> int:
    return max(i for i, step in enumerate(steps) if wanted(step))


def _rows(steps: Steps, change: Callable[[Row], Row]) -> Steps:
    return [replace(s, rows=tuple(map(change, s.rows))) if isinstance(s, Compute) else s for s in steps]


def no_clear_on_reuse(steps: Steps) -> Steps:
    """B45, B46: a recycled slot keeps the last owner's state."""
    at = _last(steps, lambda step: isinstance(step, Clear))
    return [*steps[:at], *steps[at + 1 :]]


def hit_without_a_restore(steps: Steps) -> Steps:
    """B46, B78: a hit goes on from whatever its slot holds."""
    at = _first(steps, _copies(CopyReason.RESTORE))
    return [*steps[:at], *steps[at + 1 :]]


def fork_without_a_copy(steps: Steps) -> Steps:
    """F37: the branch computes in its source's slot."""
    at = _first(steps, _copies(CopyReason.FORK))
    copy = steps[at]
    assert isinstance(copy, Copy)
    source, alias = copy.source, copy.destination

    def shared(row: Row) -> Row:
        return replace(row, source=source, destination=source) if row.source == alias else row

    return [*steps[:at], *_rows(steps[at + 1 :], shared)]


def fork_from_a_sibling(steps: Steps) -> Steps:
    """A beam takes the state of another beam."""
    at = _last(steps, _copies(CopyReason.FORK))
    others = [step.destination for step in steps[:at] if isinstance(step, Copy)]
    copy = steps[at]
    assert isinstance(copy, Copy)
    return [*steps[:at], replace(copy, source=others[-1]), *steps[at + 1 :]]


def other_buffer_is_stored(steps: Steps) -> Steps:
    """F42: the two slots of the double buffer are mixed up at the end."""
    copies = [step for step in steps if _copies(CopyReason.FORK)(step)]
    at = _last(steps, lambda step: isinstance(step, Commit) and step.slot == copies[-1].destination)  # type: ignore[union-attr]
    commit = steps[at]
    assert isinstance(commit, Commit)
    other = next(c.destination for c in copies if isinstance(c, Copy) and c.destination != commit.slot)
    return [*steps[:at], replace(commit, slot=other), *steps[at + 1 :]]


def snapshot_of_the_running_slot(steps: Steps) -> Steps:
    """B06: the working slot, further on by then, is stored under an earlier label."""
    at = _last(steps, _copies(CopyReason.FORK))
    copy = steps[at]
    later = at + 1 + _first(steps[at + 1 :], lambda step: isinstance(step, Compute))
    return [*steps[:at], *steps[at + 1 : later + 1], copy, *steps[later + 1 :]]


def snapshot_is_never_written(steps: Steps) -> Steps:
    """B01: the slot is handed to the tree and nothing was stored in it."""
    return _rows(steps, lambda row: replace(row, snapshots=()))


def conv_and_state_apart(steps: Steps) -> Steps:
    """F31: the convolution window ends elsewhere."""

    def change(row: Row) -> Row:
        return replace(row, snapshots=tuple(replace(s, conv_end=s.conv_end + 1) for s in row.snapshots))

    return _rows(steps, change)


def source_evicted_before_the_copy(steps: Steps) -> Steps:
    """F38: the restored state is gone before it was copied."""
    at = _first(steps, _copies(CopyReason.RESTORE))
    copy = steps[at]
    assert isinstance(copy, Copy)
    return [*steps[:at], Evict(copy.checkpoint, copy.source), Free(copy.source), *steps[at:]]


def evicted_slot_is_still_hit(steps: Steps) -> Steps:
    """F40: an evicted state is restored from its old slot, which others use."""
    at = _first(steps, lambda step: isinstance(step, Evict))
    gone = steps[at]
    assert isinstance(gone, Evict)
    later = at + 1 + _first(steps[at + 1 :], _copies(CopyReason.RESTORE))
    return [*steps[:later], replace(steps[later], checkpoint=gone.checkpoint, source=gone.slot), *steps[later + 1 :]]  # type: ignore[call-arg]


def stored_slot_is_reused(steps: Steps) -> Steps:
    """F40: a stored state's slot is in the free list."""
    at = _first(steps, lambda step: isinstance(step, Commit))
    commit = steps[at]
    assert isinstance(commit, Commit)
    later = at + 1 + _first(steps[at + 1 :], lambda step: isinstance(step, Copy | Clear))
    return [*steps[:later], Clear(commit.slot), *steps[later:]]


def no_copy_to_the_next_block(steps: Steps) -> Steps:
    """F52, B21: the running state stays in a block that was stored."""
    moves = [step for step in steps if _copies(CopyReason.FORK)(step)]
    slots = {step.destination: step.source for step in moves if isinstance(step, Copy)}
    kept = [step for step in steps if step not in moves]

    def root(slot: int) -> int:
        while slot in slots:
            slot = slots[slot]
        return slot

    return _rows(kept, lambda row: replace(row, source=root(row.source), destination=root(row.destination)))


def label_is_a_block_end_that_no_call_ended_at(steps: Steps) -> Steps:
    """B21, B76: a block counts as full by tokens, and its state is from elsewhere."""

    def longer(row: Row) -> Row:
        return replace(row, b=row.b + 5) if row.part == "tail" and row.b % 32 == 0 else row

    return _rows(steps, longer)


def stale_state_after_a_preemption(steps: Steps) -> Steps:
    """B44: the request is computed again from token 0 on its old state."""
    at = _last(steps, lambda step: isinstance(step, Clear))
    return [*steps[:at], *steps[at + 1 :]]


def swapped_back_from_another_slot(steps: Steps) -> Steps:
    """A swap brings another request's state back."""
    at = _last(steps, _copies(CopyReason.TIER))
    return [*steps[:at], replace(steps[at], source=1), *steps[at + 1 :]]  # type: ignore[call-arg]


def aborted_load_is_used(steps: Steps) -> Steps:
    """B13: the slot was published before the load, and the load never ran."""
    at = _first(
        steps, lambda step: isinstance(step, Copy) and step.reason is CopyReason.TIER and step.source > step.destination
    )
    copy = steps[at]
    assert isinstance(copy, Copy)
    return [*steps[:at], *steps[at + 1 :]]


def slot_freed_twice(steps: Steps) -> Steps:
    """F40: a slot that is in the free list twice is given to two requests."""
    at = _first(steps, lambda step: isinstance(step, Free))
    return [*steps[: at + 1], steps[at], *steps[at + 1 :]]


def null_slot_is_written(steps: Steps) -> Steps:
    """F44, B35: a state goes to the slot that stands for none."""
    at = _first(steps, lambda step: isinstance(step, Copy))
    return [*steps[:at], replace(steps[at], destination=0), *steps[at + 1 :]]  # type: ignore[call-arg]


CASES: list[tuple[Fault, str, Policy, str]] = [
    (no_clear_on_reuse, "preempted", NONE, "a row from 0 reads slot"),
    (hit_without_a_restore, "conversation", TURN, "which was freed"),
    (fork_without_a_copy, "beam", NONE, "a row from"),
    (fork_from_a_sibling, "beam", NONE, "means"),
    (other_buffer_is_stored, "long-decode", DOUBLE, "means 128 tokens"),
    (snapshot_of_the_running_slot, "conversation", EXACT_ENDS, "means"),
    (snapshot_is_never_written, "conversation", DOUBLE, "which nothing wrote"),
    (conv_and_state_apart, "conversation", DOUBLE, "conv window"),
    (source_evicted_before_the_copy, "conversation", TURN, "which was freed"),
    (evicted_slot_is_still_hit, "conversation", SMALL, "means"),
    (stored_slot_is_reused, "conversation", TURN, "is stored in"),
    (no_copy_to_the_next_block, "conversation", BLOCKS, "is stored in"),
    (label_is_a_block_end_that_no_call_ended_at, "conversation", BLOCKS, "means"),
    (stale_state_after_a_preemption, "preempted", NONE, "which was freed"),
    (swapped_back_from_another_slot, "preempted", NONE, "means"),
    (aborted_load_is_used, "tiers", TURN, "reads slot"),
    (slot_freed_twice, "conversation", TURN, "twice"),
    (null_slot_is_written, "conversation", TURN, "null slot"),
]


def spoiled(fault: Fault, name: str, policy: Policy) -> tuple[Schedule, Schedule]:
    right = compile_schedule(GROUPS[name], arm_of(Compiler.WARM, policy))
    return right, replace(right, steps=tuple(fault(list(right.steps))))


@pytest.mark.parametrize(("fault", "name", "policy", "complaint"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_planted_fault_is_a_problem(fault: Fault, name: str, policy: Policy, complaint: str) -> None:
    right, wrong = spoiled(fault, name, policy)
    assert simulate(right).problems == []
    assert wrong != right
    assert any(complaint in problem for problem in simulate(wrong).problems), simulate(wrong).problems
