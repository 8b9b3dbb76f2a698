"""Faults of ownership and life cycle: whose state a slot holds, when it is written, cleared, copied and given away.

Steps in, steps out (:func:`replaycheck.faults.steps.on_steps`). A step that isn't there raises StopIteration, ValueError or
IndexError. Names in brackets are numbers of public reports and of the list of fault modes in docs/faults.md.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schedule.steps import (
    Clear,
    Commit,
    Compute,
    Copy,
    CopyReason,
    Evict,
    Free,
    Row,
    Schedule,
    Snapshot,
    Source,
    Step,
    Written,
)

from .steps import Steps, copies, first, last, with_rows


def _copy(steps: Steps, at: int) -> Copy:
    copy = steps[at]
    assert isinstance(copy, Copy)
    return copy


def no_clear_on_reuse(steps: Steps) -> Steps:
    """F39, F41, B44, B45, B46: a recycled slot keeps the state that it had, its last owner's or its own."""
    reused = [i for i, s in enumerate(steps) if isinstance(s, Clear) and Free(s.slot) in steps[:i]]
    return [step for i, step in enumerate(steps) if i != reused[-1]]


def hit_without_a_restore(steps: Steps) -> Steps:
    """B46, B78: a hit goes on from whatever its slot holds."""
    at = first(steps, copies(CopyReason.RESTORE))
    return [*steps[:at], *steps[at + 1 :]]


def fork_from_a_sibling(steps: Steps) -> Steps:
    """A beam takes the state of another beam."""
    at = last(steps, copies(CopyReason.FORK))
    others = [step.destination for step in steps[:at] if isinstance(step, Copy)]
    copy = _copy(steps, at)
    return [*steps[:at], replace(copy, source=others[-1]), *steps[at + 1 :]]


def other_buffer_is_stored(steps: Steps) -> Steps:
    """F42: the two slots of the double buffer are mixed up at the end: the older one is stored and hit."""
    forks = [step for step in steps if isinstance(step, Copy) and step.reason is CopyReason.FORK]
    at = last(steps, lambda step: isinstance(step, Commit) and step.slot == forks[-1].destination)
    commit = steps[at]
    assert isinstance(commit, Commit)
    other = next(copy.destination for copy in forks if copy.destination != commit.slot)

    def hit(step: Step) -> Step:
        mine = isinstance(step, Copy) and step.reason is CopyReason.RESTORE and step.source == commit.slot
        return replace(step, source=other) if mine and isinstance(step, Copy) else step

    return [*steps[:at], replace(commit, slot=other), *map(hit, steps[at + 1 :])]


def snapshot_of_the_running_slot(steps: Steps) -> Steps:
    """F45, B06: a request's end copies the working slot, further on by then, under the label of its prompt's end."""
    at = first(steps, copies(CopyReason.FORK))
    copy = steps[at]
    over = first(steps, lambda step: isinstance(step, Free))
    assert isinstance(copy, Copy)
    return [*steps[:at], *steps[at + 1 : over], copy, *steps[over:]]


def snapshot_is_never_written(steps: Steps) -> Steps:
    """B01: the slot is handed to the tree and nothing was stored in it."""
    return with_rows(steps, lambda row: replace(row, snapshots=()))


def source_evicted_before_the_copy(steps: Steps) -> Steps:
    """F38: the restored state is gone before it was copied."""
    at = first(steps, copies(CopyReason.RESTORE))
    copy = _copy(steps, at)
    return [*steps[:at], Evict(copy.checkpoint, copy.source), Free(copy.source), *steps[at:]]


def evicted_slot_is_still_hit(steps: Steps) -> Steps:
    """F40: an evicted state is restored from its old slot, which others use."""
    at = first(steps, lambda step: isinstance(step, Evict))
    gone = steps[at]
    assert isinstance(gone, Evict)
    later = at + 1 + first(steps[at + 1 :], copies(CopyReason.RESTORE))
    hit = replace(_copy(steps, later), checkpoint=gone.checkpoint, source=gone.slot)
    return [*steps[:later], hit, *steps[later + 1 :]]


def stored_slot_is_reused(steps: Steps) -> Steps:
    """F40: a stored state's slot is in the free list, and is cleared for another request before it is read."""
    at = last(steps, copies(CopyReason.RESTORE))
    copy = _copy(steps, at)
    return [*steps[:at], Clear(copy.source), *steps[at:]]


def no_copy_to_the_next_block(steps: Steps) -> Steps:
    """F52, B21: the running state stays in a block that was stored."""
    moves = [step for step in steps if copies(CopyReason.FORK)(step)]
    slots = {step.destination: step.source for step in moves if isinstance(step, Copy)}
    kept = [step for step in steps if step not in moves]

    def root(slot: int) -> int:
        while slot in slots:
            slot = slots[slot]
        return slot

    return with_rows(kept, lambda row: replace(row, source=root(row.source), destination=root(row.destination)))


def label_is_a_block_end_that_no_call_ended_at(steps: Steps) -> Steps:
    """B21, B76: a block counts as full by tokens, and its state is from elsewhere."""

    def longer(row: Row) -> Row:
        return replace(row, b=row.b + 5) if row.part == "tail" and row.b % 32 == 0 else row

    return with_rows(steps, longer)


def swapped_back_from_another_slot(steps: Steps) -> Steps:
    """A swap brings another request's state back."""
    at = last(steps, copies(CopyReason.TIER))
    return [*steps[:at], replace(_copy(steps, at), source=1), *steps[at + 1 :]]


def aborted_load_is_used(steps: Steps) -> Steps:
    """B13: the slot was published before the load, and the load never ran."""
    at = first(
        steps, lambda step: isinstance(step, Copy) and step.reason is CopyReason.TIER and step.source > step.destination
    )
    return [*steps[:at], *steps[at + 1 :]]


def slot_freed_twice(steps: Steps) -> Steps:
    """F40: a slot that is in the free list twice is given to two requests."""
    at = first(steps, lambda step: isinstance(step, Free))
    return [*steps[: at + 1], steps[at], *steps[at + 1 :]]


def null_slot_is_written(steps: Steps) -> Steps:
    """F44, B35: a state goes to the slot that stands for none."""
    at = first(steps, lambda step: isinstance(step, Copy))
    return [*steps[:at], replace(_copy(steps, at), destination=0), *steps[at + 1 :]]


def restored_as_empty(steps: Steps) -> Steps:
    """F26, B68: a hit finds the state not written yet, or cleared, and goes on from that of no tokens."""
    return [Clear(s.destination) if isinstance(s, Copy) and s.reason is CopyReason.RESTORE else s for s in steps]


def stale_track_row(steps: Steps) -> Steps:
    """F43: the next pass writes one more snapshot, to the last slot of the pass before: an earlier request's checkpoint."""
    at = first(steps, lambda s: isinstance(s, Compute) and bool(s.rows[-1].snapshots))
    before = steps[at]
    later = at + 1 + first(steps[at + 1 :], lambda s: isinstance(s, Compute) and s.rows[0].b - s.rows[0].a > 1)
    compute = steps[later]
    assert isinstance(before, Compute) and isinstance(compute, Compute)
    row, old = compute.rows[0], before.rows[-1].snapshots[-1].destination
    extra = Snapshot(chunk=0, source=Source.FINAL, destination=old, conv_end=row.b - row.a)
    changed = replace(compute, rows=(replace(row, snapshots=(*row.snapshots, extra)), *compute.rows[1:]))
    return [*steps[:later], changed, *steps[later + 1 :]]


def beams_share_one_slot(steps: Steps) -> Steps:
    """F37 in an engine that runs siblings in turn: every fork goes on in the slot of its source."""
    alias: dict[int, int] = {}

    def root(slot: int) -> int:
        while slot in alias:
            slot = alias[slot]
        return slot

    spoiled: Steps = []
    for step in steps:
        if isinstance(step, Copy) and step.reason is CopyReason.FORK:
            alias[step.destination] = step.source
            continue
        if isinstance(step, Compute):
            rows = tuple(replace(r, source=root(r.source), destination=root(r.destination)) for r in step.rows)
            step = replace(step, rows=rows)
        spoiled.append(step)
    return spoiled


def null_slot_gets_a_copy(steps: Steps) -> Steps:
    """F44: padding writes slot 0, which nobody reads. No output shows it."""
    at = first(steps, lambda step: isinstance(step, Commit))
    commit = steps[at]
    assert isinstance(commit, Commit)
    return [*steps[: at + 1], Copy(CopyReason.FORK, commit.checkpoint, commit.slot, 0), *steps[at + 1 :]]


def restored_from_another_request(steps: Steps) -> Steps:
    """F38, F40, B13: the slot was reused before it was read: a hit takes the state that another request stored last."""
    at = last(steps, copies(CopyReason.RESTORE))
    copy = _copy(steps, at)
    mine = copy.checkpoint.partition("@")[0]
    others = [s.slot for s in steps[:at] if isinstance(s, Commit) and s.checkpoint.partition("@")[0] != mine]
    return [*steps[:at], replace(copy, source=others[-1]), *steps[at + 1 :]]


def tier_copy_is_late(steps: Steps) -> Steps:
    """B04, B61: a state is read back from the host before it was written there: the slot's last owner's is taken."""
    at = first(
        steps, lambda step: isinstance(step, Copy) and step.reason is CopyReason.TIER and step.source > step.destination
    )
    copy = _copy(steps, at)
    mine = copy.checkpoint
    other = next(s.slot for s in reversed(steps[:at]) if isinstance(s, Commit) and s.checkpoint != mine)
    return [*steps[:at], replace(copy, source=other), *steps[at + 1 :]]


def aligned_as_interior(schedule: Schedule) -> Schedule:
    """F18: the state at the end of an extend on the grid is read one row past its last chunk, where zeros lie."""
    names = {name for name, state in schedule.checkpoints().items() if state.written is Written.FINAL_GRID}
    steps = [
        Clear(step.destination) if isinstance(step, Copy) and _stores(step, names) else step for step in schedule.steps
    ]
    return replace(schedule, steps=tuple(steps))


def _stores(copy: Copy, names: set[str]) -> bool:
    return copy.reason is CopyReason.FORK and copy.checkpoint in names
