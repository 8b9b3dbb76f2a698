"""The warm compiler: restore a checkpoint into a working slot, compute the tail in place, store checkpoints, decode.

Slots are reused: a working slot goes back to a free list when its request is over, and the next request gets the slot that
was freed last, so stale contents would show. Checkpoints keep theirs.
"""

from __future__ import annotations

from replaycheck.schema.arm import Arm

from .rows import Track, answer_rows, extend, needs_answer, snapshot, tracks
from .steps import (
    Clear,
    Commit,
    Compute,
    Copy,
    CopyReason,
    RequestPlan,
    Schedule,
    Snapshot,
    Step,
)


class _Slots:
    """A free list, last in first out, that grows."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self.count = 1

    def take(self) -> int:
        if self._free:
            return self._free.pop()
        self.count += 1
        return self.count - 1

    def give(self, slot: int) -> None:
        self._free.append(slot)


def compile_warm(arm: Arm, group: str, plans: tuple[RequestPlan, ...]) -> Schedule:
    """Compile for an arm with the cache on."""
    slots, stored, steps = _Slots(), dict[str, int](), list[Step]()
    for index, plan in enumerate(plans):
        lines = [(track, slots.take()) for track in tracks(arm) if track.scored or plan.creates]
        steps += [step for _, slot in lines for step in _begin(plan, slot, stored)]
        rows = []
        for track, slot in lines:
            interior = _interior(plan, slots, stored) if track.stores else ()
            rows.append(extend(plan, index, track, slot, slot, interior))
        steps.append(Compute(tuple(rows)))
        keeper = next((slot for track, slot in lines if track.stores), None)
        if keeper is not None:
            steps += [Commit(c.name, stored[c.name]) for c in plan.creates if c.written.inside]
            steps += _keep(plan, keeper, slots, stored, after_prompt=False)
        steps += _decode(plan, index, arm, lines)
        if keeper is not None:
            steps += _keep(plan, keeper, slots, stored, after_prompt=True)
        for _, slot in lines:
            slots.give(slot)
    hits = sum(plan.restore is not None for plan in plans)
    return Schedule(arm, group, plans, tuple(steps), slots.count, hits)


def _begin(plan: RequestPlan, slot: int, stored: dict[str, int]) -> list[Step]:
    """Put the restored state, or the state of no tokens, into the working slot."""
    if plan.restore is None:
        return [Clear(slot)]
    name = plan.restore.name
    return [Copy(CopyReason.RESTORE, name, stored[name], slot)]


def _interior(plan: RequestPlan, slots: _Slots, stored: dict[str, int]) -> tuple[Snapshot, ...]:
    """Slots and snapshots of the checkpoints inside the extend."""
    inside = [c for c in plan.creates if c.written.inside]
    for checkpoint in inside:
        stored[checkpoint.name] = slots.take()
    return tuple(snapshot(plan, c, stored[c.name]) for c in inside)


def _keep(plan: RequestPlan, slot: int, slots: _Slots, stored: dict[str, int], after_prompt: bool) -> list[Step]:
    """Copy the working slot to the checkpoints that end at the prompt, or after the answer."""
    steps: list[Step] = []
    for checkpoint in plan.creates:
        if checkpoint.written.inside or (checkpoint.position > plan.prompt) is not after_prompt:
            continue
        stored[checkpoint.name] = slots.take()
        steps.append(Copy(CopyReason.FORK, checkpoint.name, slot, stored[checkpoint.name]))
        steps.append(Commit(checkpoint.name, stored[checkpoint.name]))
    return steps


def _decode(plan: RequestPlan, index: int, arm: Arm, lines: list[tuple[Track, int]]) -> list[Step]:
    """The answer, all tracks in one step a token."""
    columns = [list(answer_rows(plan, index, arm, track, slot)) for track, slot in lines if needs_answer(plan, track)]
    return [Compute(rows) for rows in zip(*columns, strict=True)]
