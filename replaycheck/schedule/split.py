"""The split compiler: the calls of warm without store and restore; the state is carried live.

Each checkpoint of warm is a register that is written once, straight from the call that computed it (a tap), and read by
the calls that continue from it. Nothing is copied and no register is reused while it is needed. ``split`` keeps registers in
fp32; ``split-rounded`` casts once to the pool dtype at each store. So both share warm's cuts and kernels, and none of its
slots, copies and restores.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.arm import Arm

from .rows import Track, answer_rows, extend, needs_answer, snapshot, tracks
from .steps import Clear, Commit, Compute, RequestPlan, Row, Schedule, Step, Written

ZERO = 1
"""The register of the state of no tokens."""


class _Registers:
    """Live registers by checkpoint name, and scratch registers by track."""

    def __init__(self) -> None:
        self.count = ZERO + 1
        self._names: dict[str, int] = {}

    def of(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = self.count
            self.count += 1
        return self._names[name]


def compile_split(arm: Arm, group: str, plans: tuple[RequestPlan, ...]) -> Schedule:
    """Compile for ``split`` or ``split-rounded``; the two differ in the executor's registers only."""
    registers, steps = _Registers(), list[Step]([Clear(ZERO)])
    for index, plan in enumerate(plans):
        lines = [track for track in tracks(arm) if track.scored or plan.creates]
        steps.append(Compute(tuple(_extend(plan, index, track, registers) for track in lines)))
        steps += _commits(plan, registers, after_prompt=False)
        columns = [_answer(plan, index, arm, track, registers) for track in lines if needs_answer(plan, track)]
        for i in range(max(map(len, columns), default=0)):
            steps.append(Compute(tuple(column[i] for column in columns)))
        steps += _commits(plan, registers, after_prompt=True)
    return Schedule(arm, group, plans, tuple(steps), registers.count, expected_hits=0)


def _extend(plan: RequestPlan, index: int, track: Track, registers: _Registers) -> Row:
    source = registers.of(plan.restore.name) if plan.restore else ZERO
    taken = [c for c in plan.creates if track.stores and c.position <= plan.prompt]
    snapshots = tuple(snapshot(plan, c, registers.of(c.name)) for c in taken)
    return extend(plan, index, track, source, registers.of(f"live {track.part}"), snapshots)


def _answer(plan: RequestPlan, index: int, arm: Arm, track: Track, registers: _Registers) -> list[Row]:
    """The answer's rows; the last one of the storing track writes the register of the checkpoint after the answer."""
    rows = list(answer_rows(plan, index, arm, track, registers.of(f"live {track.part}")))
    after = [c for c in plan.creates if c.written is Written.DECODE]
    if track.stores and after and rows:
        rows[-1] = replace(rows[-1], destination=registers.of(after[0].name))
    return rows


def _commits(plan: RequestPlan, registers: _Registers, after_prompt: bool) -> list[Step]:
    return [Commit(c.name, registers.of(c.name)) for c in plan.creates if (c.position > plan.prompt) is after_prompt]
