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
    Kept,
    Row,
    RowKind,
    Schedule,
    Snapshot,
    Source,
    Step,
)
from replaycheck.schema.arm import CHUNK, Kernel

from .steps import ScheduleFault, map_rows, map_snapshots


def bf16_snapshot(schedule: Schedule) -> Schedule:
    """Snapshots of extends that don't end on the grid read the per-chunk states, which have the activation dtype."""

    def change(row: Row) -> Row:
        if row.kernel is not Kernel.CHUNK or (row.b - row.a) % CHUNK == 0:
            return row
        return map_snapshots(
            row, lambda s: replace(s, source=Source.CHUNK_STATE) if s.source is Source.ACCUMULATOR else s
        )

    return map_rows(schedule, change)


def tail_kernel(schedule: Schedule) -> Schedule:
    """After a restore the tail runs through the other kernel form."""
    other = {Kernel.CHUNK: Kernel.RECURRENT, Kernel.RECURRENT: Kernel.CHUNK}

    def change(row: Row) -> Row:
        hit = row.restored is not None and row.scored and row.kind is RowKind.PREFILL
        return replace(row, kernel=other[row.kernel]) if hit else row

    return map_rows(schedule, change)


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

    return map_rows(schedule, change)


def mask_dropped(schedule: Schedule) -> Schedule:
    """The mask lets padding through: it reaches convolution, recurrent state, attention cache and positions."""

    def change(row: Row) -> Row:
        if row.columns is None or row.kept is not None:
            return row
        width = row.columns.left + row.b - row.a + row.columns.right
        return replace(row, columns=replace(row.columns, first=0, last=width))

    return map_rows(schedule, change)


def conv_off(by: int) -> ScheduleFault:
    """The conv window of a snapshot inside an extend ends ``by`` tokens later (earlier below 0)."""

    def fault(schedule: Schedule) -> Schedule:
        def change(row: Row) -> Row:
            return map_snapshots(row, lambda s: replace(s, conv_end=min(max(s.conv_end + by, 0), row.b - row.a)))

        return map_rows(schedule, change)

    return fault


def chunk_off(by: int) -> ScheduleFault:
    """The snapshot of another chunk of the same extend; the conv window is right."""

    def fault(schedule: Schedule) -> Schedule:
        def change(row: Row) -> Row:
            most = (row.b - row.a - 1) // CHUNK
            return map_snapshots(
                row,
                lambda s: replace(s, chunk=min(max(s.chunk + by, 0), most)) if s.source is Source.ACCUMULATOR else s,
            )

        return map_rows(schedule, change)

    return fault


def position_off(chunks: int) -> ScheduleFault:
    """State and conv window both belong to a point so many chunks later (earlier below 0) in the same extend."""

    def fault(schedule: Schedule) -> Schedule:
        def change(row: Row) -> Row:
            def move(s: Snapshot) -> Snapshot:
                chunk = min(max(s.chunk + chunks, 0), (row.b - row.a - 1) // CHUNK)
                inside = s.source is Source.ACCUMULATOR
                return replace(s, chunk=chunk, conv_end=chunk * CHUNK) if inside else s

            return map_snapshots(row, move)

        return map_rows(schedule, change)

    return fault


def final_for_interior(schedule: Schedule) -> Schedule:
    """The state at an extend's end is stored under the name of a point inside it; so is its conv window."""

    def change(row: Row) -> Row:
        if (row.b - row.a) % CHUNK == 0:
            return row
        return map_snapshots(
            row,
            lambda s: replace(s, source=Source.FINAL, conv_end=row.b - row.a) if s.source is Source.ACCUMULATOR else s,
        )

    return map_rows(schedule, change)


def tail_skipped(tokens: int) -> ScheduleFault:
    """The first ``tokens`` tokens after a restore are taken for cached and never computed."""

    def fault(schedule: Schedule) -> Schedule:
        def change(row: Row) -> Row:
            hit = row.restored is not None and row.kind is RowKind.PREFILL and row.b - row.a > tokens + 1
            kept = tuple(s for s in row.snapshots if s.source is not Source.ACCUMULATOR)
            return replace(row, a=row.a + tokens, snapshots=kept) if hit else row

        return map_rows(schedule, change)

    return fault


def rounds_each_step(schedule: Schedule) -> Schedule:
    """A window's kept tokens are decoded one by one, each stored to the pool: more roundings than one a window."""
    steps: list[Step] = []
    for step in schedule.steps:
        windows = isinstance(step, Compute) and all(row.kept is not None for row in step.rows)
        if isinstance(step, Compute) and windows and len(step.rows) == 1 and step.rows[0].accepted:
            steps += _decoded(step.rows[0])
        else:
            steps.append(step)
    return replace(schedule, steps=tuple(steps))


def _decoded(row: Row) -> list[Step]:
    """The kept tokens of a verify row as decode rows in its slots."""
    assert row.kept is not None
    if row.snapshots:
        return [Compute((row,))]
    source, found = row.source, []
    for at in range(row.a, row.a + row.kept.temporal):
        one = replace(row, a=at, b=at + 1, kind=RowKind.DECODE, window=None, accepted=None, kept=None, source=source)
        found.append(Compute((one,)))
        source = row.destination
    return list(found)


def with_kept(change: Callable[[Row, Kept], Kept]) -> ScheduleFault:
    """Another plan of what a window leaves."""

    def fault(schedule: Schedule) -> Schedule:
        return map_rows(schedule, lambda row: replace(row, kept=change(row, row.kept)) if row.kept else row)

    return fault


def kept_off(by: int) -> ScheduleFault:
    """All parts of a window keep so many tokens more or less, at least one and at most what was run."""
    return with_kept(lambda row, kept: Kept.all(min(max(kept.temporal + by, 1), row.b - row.a)))


def conv_not_rolled_back(row: Row, kept: Kept) -> Kept:
    """The conv window is that after the whole window."""
    return replace(kept, conv=row.b - row.a)


def conv_of_the_first(row: Row, kept: Kept) -> Kept:
    """The offset of the conv window ignores the accepted tokens: it is that after the window's first."""
    return replace(kept, conv=1)


def first_column(row: Row, kept: Kept) -> Kept:
    """The state is read from the first column: that after the window's first token."""
    return replace(kept, temporal=1)


def cache_not_cropped(row: Row, kept: Kept) -> Kept:
    """The attention cache keeps rejected drafts."""
    return replace(kept, pages=row.b - row.a)


def draftless_shifts(schedule: Schedule) -> Schedule:
    """After a step without drafts, the step before it counts once more: its columns are taken for a window's."""
    previous: dict[int, int] = {}

    def change(row: Row) -> Row:
        if row.kept is None:
            return row
        before, previous[row.request] = previous.get(row.request, 0), row.kept.temporal
        plain = row.b - row.a == 1 and before > 1
        return replace(row, kept=replace(row.kept, conv=0)) if plain else row

    return map_rows(schedule, change)


def counts_of_mates(schedule: Schedule) -> Schedule:
    """Accepted counts in another order of rows: each row of a pass keeps what its neighbour was to keep."""

    def change(step: Step) -> Step:
        if not isinstance(step, Compute) or len(step.rows) < 2 or any(row.kept is None for row in step.rows):
            return step
        counts = [row.kept.temporal for row in step.rows if row.kept]
        turned = [*counts[1:], counts[0]]
        rows = [
            replace(row, kept=replace(row.kept, temporal=min(n, row.b - row.a), conv=min(n, row.b - row.a)))
            for row, n in zip(step.rows, turned, strict=True)
            if row.kept
        ]
        return replace(step, rows=tuple(rows))

    return replace(schedule, steps=tuple(map(change, schedule.steps)))


def stale_ring(schedule: Schedule) -> Schedule:
    """The state that a request leaves misses the ring's last window: it was given away before the flush."""
    wanted = {index: plan.computed_end for index, plan in enumerate(schedule.requests)}

    def change(row: Row) -> Row:
        over = row.kept is not None and row.a + row.kept.temporal == wanted[row.request]
        return replace(row, kept=replace(row.kept, temporal=0)) if over and row.kept else row

    return map_rows(schedule, change)


def lagging(schedule: Schedule) -> Schedule:
    """After the first rejection each window gives one token less to the state than it kept: the lag grows."""
    seen: set[int] = set()

    def change(row: Row) -> Row:
        if row.kept is None or row.accepted is None:
            return row
        late = row.request in seen
        if row.kept.temporal < row.b - row.a:
            seen.add(row.request)
        return replace(row, kept=replace(row.kept, temporal=row.kept.temporal - 1)) if late else row

    return map_rows(schedule, change)
