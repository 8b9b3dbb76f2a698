"""What the first wrong step itself says: the row, the plan that was executed, and equal bits of earlier steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from replaycheck.schedule.steps import NULL_SLOT, Commit, Compute, Copy, CopyReason, Row, RowKind, Schedule

from .again import Replayed
from .holds import held_by_bits
from .locate import FirstWrong
from .symptoms import Symptoms
from .trail import Op, Seen, Trail

__all__ = ["loaded", "lost_hits", "null_slot", "of_step", "wrong_by_kind"]


def wrong_by_kind(found: Replayed) -> tuple[tuple[str, int, int], ...]:
    """Stored states by how they were written: the kind, how many differ from the reference's, how many both have."""
    right = {seen.key: seen for seen in found.reference.steps if seen.key.op is Op.COMMIT}
    states = found.candidate.schedule.checkpoints()
    wrong: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for seen in found.candidate.steps:
        other = right.get(seen.key)
        if other is not None:
            kind = str(states[seen.key.name].written)
            every[kind] += 1
            same = np.array_equal(seen.temporal, other.temporal) and np.array_equal(seen.conv, other.conv)
            wrong[kind] += not same
    return tuple((kind, wrong[kind], count) for kind, count in sorted(every.items()))


def lost_hits(found: Replayed) -> int:
    """Hits that warm's plan expected and that didn't happen; 0 where nothing was recorded."""
    if not found.recordings:
        return 0
    return max(0, found.recordings[1].expected_hits - found.recordings[1].proven_hits)


def null_slot(schedule: Schedule) -> bool:
    """Whether a step uses the slot that stands for no state."""
    slots: list[int] = []
    for step in schedule.steps:
        if isinstance(step, Compute):
            slots += [slot for row in step.rows for slot in (row.source, row.destination)]
            slots += [snap.destination for row in step.rows for snap in row.snapshots]
        elif isinstance(step, Copy):
            slots += [step.source, step.destination]
        else:
            slots.append(step.slot)
    return NULL_SLOT in slots


def of_step(facts: Symptoms, found: Replayed) -> Symptoms:
    """What the wrong step itself says."""
    wrong = facts.wrong
    assert wrong is not None
    row, other = wrong.step.row, wrong.reference
    kernels = (str(row.kernel), str(other.row.kernel)) if row and other and other.row else None
    name = row.restored if row else wrong.key.name if wrong.key.op is Op.COPY else None
    return replace(
        facts,
        meant=wrong.key.position,
        row_starts_elsewhere=other is None,
        from_nothing=other is None and wrong.key.position == 0,
        other_cuts=row is not None and loaded(found.candidate, row).key not in {s.key for s in found.reference.steps},
        hit=bool(name),
        verify=bool(row and row.kind is RowKind.VERIFY),
        recurrent=bool(wrong.places),
        conv=bool(wrong.conv),
        layer=_first_layer(wrong),
        whole=len(wrong.places) == len(wrong.layers) * wrong.heads,
        finite=wrong.step.finite,
        inputs_finite=loaded(found.candidate, row).finite if row else True,
        kernels=kernels,
        named=_named_right(found, name) if name else None,
        brought=bool(name) and _brought(found.candidate.schedule, str(name)),
        slot_changed=bool(name) and _other_slot(found.candidate.schedule, str(name)),
        copied=wrong.step.copied,
        pages=wrong.pages,
        first_load=row is not None and row is _rows_of(found.candidate, wrong.key.request)[0],
        call_end=_call_end(found.candidate, wrong),
        holds=held_by_bits(found.candidate, wrong),
        doubled=_doubled(found, wrong),
        named_live=_live_right(found, wrong),
    )


def _first_layer(wrong: FirstWrong) -> int:
    """Counted among the recurrent layers."""
    found = [layer for layer, _ in wrong.places] + list(wrong.conv)
    return wrong.layers.index(min(found)) if found else 0


def loaded(trail: Trail, row: Row) -> Seen:
    """What a row was given when its state was loaded."""
    return next(seen for seen in trail.steps if seen.row is row and seen.key.op is Op.LOAD)


def _commit(trail: Trail, name: str) -> Seen | None:
    """The last time that a state was stored under its name."""
    return next((s for s in reversed(trail.steps) if s.key.op is Op.COMMIT and s.key.name == name), None)


def _named_right(found: Replayed, name: str) -> bool | None:
    mine, other = _commit(found.candidate, name), _commit(found.reference, name)
    if mine is None or other is None:
        return None
    return np.array_equal(mine.temporal, other.temporal) and np.array_equal(mine.conv, other.conv)


def _other_slot(schedule: Schedule, name: str) -> bool:
    """Whether the copy that brought a named state read another slot than the last one it was stored in."""
    stored = brought = None
    for step in schedule.steps:
        if isinstance(step, Commit) and step.checkpoint == name:
            stored = step.slot
        if isinstance(step, Copy) and step.reason is CopyReason.RESTORE and step.checkpoint == name:
            brought = step.source
    return None not in (stored, brought) and stored != brought


def _brought(schedule: Schedule, name: str) -> bool:
    """Whether a step copies a named state into a working slot."""
    return any(
        isinstance(step, Copy) and step.reason is CopyReason.RESTORE and step.checkpoint == name
        for step in schedule.steps
    )


def _doubled(found: Replayed, wrong: FirstWrong) -> bool:
    """Whether an earlier store of another request left the same recurrent state, rightly."""
    right = {seen.key: seen for seen in found.reference.steps if seen.key.op is Op.STORE}
    for seen in found.candidate.steps:
        if seen.key == wrong.key:
            return False
        other = right.get(seen.key)
        same = seen.key.request != wrong.key.request and np.array_equal(seen.temporal, wrong.step.temporal)
        if same and other is not None and np.array_equal(seen.temporal, other.temporal):
            return True
    return False


def _live_right(found: Replayed, wrong: FirstWrong) -> bool:
    """Whether the request had computed the state at this position as the reference did, before any store."""
    place = wrong.key.request, wrong.key.position
    live = [
        next(
            (
                s
                for s in trail.steps
                if s.key.op in (Op.SNAPSHOT, Op.COMPUTE) and (s.key.request, s.key.position) == place
            ),
            None,
        )
        for trail in (found.candidate, found.reference)
    ]
    mine, other = live
    return mine is not None and other is not None and np.array_equal(mine.temporal, other.temporal)


def _rows_of(trail: Trail, request: int) -> list[Row]:
    return [s.row for s in trail.steps if s.key.op is Op.LOAD and s.row is not None and s.key.request == request]


def _call_end(trail: Trail, wrong: FirstWrong) -> int:
    """Tokens of the request after its last call up to the wrong step."""
    number = next(i for i, seen in enumerate(trail.steps) if seen.key == wrong.key)
    ends = [
        seen.key.position
        for seen in trail.steps[: number + 1]
        if seen.key.op is Op.COMPUTE and seen.key.request == wrong.key.request
    ]
    return ends[-1] if ends else 0
