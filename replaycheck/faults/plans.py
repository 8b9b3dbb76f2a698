"""Faults of plans: schedule in, schedule out, tensors never seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replaycheck.schedule.steps import (
    Clear,
    Commit,
    Compute,
    Copy,
    CopyReason,
    Evict,
    Row,
    RowKind,
    Schedule,
    Snapshot,
    Source,
    Step,
)
from replaycheck.schema.arm import CHUNK, Kernel


def _map_rows(schedule: Schedule, change: Callable[[Row], Row]) -> Schedule:
    steps = [
        replace(step, rows=tuple(change(row) for row in step.rows)) if isinstance(step, Compute) else step
        for step in schedule.steps
    ]
    return replace(schedule, steps=tuple(steps))


def _map_snapshots(row: Row, change: Callable[[Snapshot], Snapshot]) -> Row:
    return replace(row, snapshots=tuple(change(snapshot) for snapshot in row.snapshots))


def bf16_snapshot(schedule: Schedule) -> Schedule:
    """Snapshots of extends that don't end on the grid read the per-chunk states, which have the activation dtype."""

    def change(row: Row) -> Row:
        if row.kernel is not Kernel.CHUNK or (row.b - row.a) % CHUNK == 0:
            return row
        return _map_snapshots(
            row, lambda s: replace(s, source=Source.CHUNK_STATE) if s.source is Source.ACCUMULATOR else s
        )

    return _map_rows(schedule, change)


def conv_late(schedule: Schedule) -> Schedule:
    """The conv window of a snapshot inside an extend ends one token late; the temporal state is right."""

    def change(row: Row) -> Row:
        return _map_snapshots(row, lambda s: replace(s, conv_end=min(s.conv_end + 1, row.b - row.a)))

    return _map_rows(schedule, change)


def tail_kernel(schedule: Schedule) -> Schedule:
    """After a restore the tail runs through the other kernel form."""
    other = {Kernel.CHUNK: Kernel.RECURRENT, Kernel.RECURRENT: Kernel.CHUNK}

    def change(row: Row) -> Row:
        hit = row.restored is not None and row.scored and row.kind is RowKind.PREFILL
        return replace(row, kernel=other[row.kernel]) if hit else row

    return _map_rows(schedule, change)


def restore_late(schedule: Schedule) -> Schedule:
    """Each restore copies the checkpoint that was stored after the one it names, if there is one by then."""
    stored: list[tuple[str, int]] = []
    steps: list[Step] = []
    for step in schedule.steps:
        if isinstance(step, Commit):
            stored.append((step.checkpoint, step.slot))
        if isinstance(step, Copy) and step.reason is CopyReason.RESTORE:
            names = [name for name, _ in stored]
            at = min(names.index(step.checkpoint) + 1, len(stored) - 1)
            step = replace(step, source=stored[at][1])
        steps.append(step)
    return replace(schedule, steps=tuple(steps))


def lost_checkpoint(schedule: Schedule) -> Schedule:
    """The last request that would hit finds nothing: it starts from an empty state and computes its whole prompt."""
    hits = [index for index, plan in enumerate(schedule.requests) if plan.restore is not None]
    if not hits:
        return schedule
    lost = hits[-1]
    gone = {checkpoint.name for checkpoint in schedule.requests[lost].creates}
    steps: list[Step] = []
    for index, step in enumerate(schedule.steps):
        if isinstance(step, Copy) and step.reason is CopyReason.RESTORE and _serves(schedule, index, lost):
            steps.append(Clear(step.destination))
        elif isinstance(step, Compute):
            steps.append(replace(step, rows=tuple(_from_zero(row, lost) for row in step.rows)))
        elif not (isinstance(step, Copy | Commit | Evict) and step.checkpoint in gone):
            steps.append(step)
    return replace(schedule, steps=tuple(steps))


def _serves(schedule: Schedule, index: int, request: int) -> bool:
    """Whether the copy at ``index`` is followed by the extend of ``request``."""
    following = next(step for step in schedule.steps[index:] if isinstance(step, Compute))
    return following.rows[0].request == request


def _from_zero(row: Row, request: int) -> Row:
    if row.request != request or row.restored is None:
        return row
    return replace(row, a=0, restored=None, snapshots=())


def commit_late(schedule: Schedule) -> Schedule:
    """After a window with rejected drafts the recurrent state includes the first of them; the rest is right."""

    def change(row: Row) -> Row:
        if row.kept is None:
            return row
        return replace(row, kept=replace(row.kept, temporal=min(row.kept.temporal + 1, row.b - row.a)))

    return _map_rows(schedule, change)
