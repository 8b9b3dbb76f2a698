"""One planner a method: windows in, operations out. Requests join with a computed prefix and take part in any steps.

A step is a batch of (request, window index) in row order; rows change from step to step, requests keep their slots.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaycheck.schedule.steps import NULL_SLOT

from .integers import align_postprocess, recover_plan, running_column, track_step
from .method import Rollback, Setup
from .steps import CopyConv, CopyState, Crop, Expect, Fold, Memory, Operation, Place, Push, Rebuild, Verify
from .windows import Window


@dataclass(frozen=True)
class Answer:
    """One request: ``computed`` tokens of prompt, then the windows of its answer."""

    computed: int
    windows: tuple[Window, ...]

    def before(self, window: int) -> int:
        """Tokens computed when the window starts."""
        return self.computed + self.windows[window].offset

    @property
    def reach(self) -> int:
        """Most tokens that any of its steps runs to; drafts may go past the answer's end."""
        return self.computed + max(window.offset + window.length for window in self.windows)


def planner(setup: Setup, answers: Sequence[Answer]) -> Planner:
    """The planner of the setup's method."""
    kinds: dict[Rollback, type[Planner]] = {
        Rollback.SLOTS: SlotsPlanner,
        Rollback.COPY: CopyPlanner,
        Rollback.RECOVER: RecoverPlanner,
        Rollback.REPLAY: ReplayPlanner,
    }
    return kinds[setup.method](setup, answers)


class Planner(ABC):
    """Slots are handed out at the start; ``first`` is where a request's prompt state and history are stored."""

    def __init__(self, setup: Setup, answers: Sequence[Answer]) -> None:
        self.setup, self.answers = setup, answers
        self._next = NULL_SLOT + 1
        self.first = [self._begin(request) for request in range(len(answers))]

    def _take(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count, self._next))

    @property
    def slots(self) -> int:
        """Size of the pool, the null slot included."""
        return self._next

    @abstractmethod
    def _begin(self, request: int) -> int:
        """Give the request its slots and return that of its first state."""

    @abstractmethod
    def _verify(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        """What happens before and in the forward pass."""

    @abstractmethod
    def _after(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        """What happens after sampling."""

    def step(self, batch: Sequence[tuple[int, int]]) -> list[Operation]:
        """One step of a batch of (request, window index)."""
        rows = [(row, *entry, self.answers[entry[0]].windows[entry[1]]) for row, entry in enumerate(batch)]
        operations = [op for row in rows for op in self._verify(*row)]
        for row in rows:
            operations += self._after(*row)
            operations.append(Crop(row[1], self._end(row[1], row[2])))
        return operations

    def _end(self, request: int, index: int) -> int:
        return self.answers[request].before(index) + self.answers[request].windows[index].kept


class SlotsPlanner(Planner):
    """(a) With aligned blocks, column p … p + width − 1 of the table are the slots of the window that works in block p."""

    def _begin(self, request: int) -> int:
        if request == 0:
            self._tables: list[list[int]] = []
            self._chosen: list[int] = []
            self._bases: list[int] = []
        answer, block = self.answers[request], self.setup.block
        blocks = 0 if block is None else running_column(answer.reach, block)
        self._tables.append(self._take(blocks + self.setup.width))
        self._chosen.append(0)
        self._bases.append(0 if block is None else running_column(answer.computed, block))
        return self._tables[request][self._bases[request]]

    def _verify(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        table = self._tables[request]
        if self.setup.block is not None:
            yield from self._move_on(request, index, window)
        base, chosen = self._bases[request], self._chosen[request]
        places = tuple(Place(Memory.POOL, table[base + t]) for t in range(window.length))
        yield Verify(
            row, request, index, table[base + chosen], table[base], chosen, Place(Memory.POOL, table[base]), places
        )

    def _move_on(self, request: int, index: int, window: Window) -> Iterator[Operation]:
        """The pre-copy: a step that ends in another block works there, from a neutral column."""
        assert self.setup.block is not None
        table, base, chosen = self._tables[request], self._bases[request], self._chosen[request]
        column = running_column(self.answers[request].before(index) + window.length, self.setup.block)
        if column == base:
            return
        yield CopyState(Place(Memory.POOL, table[base + chosen]), table[column])
        yield CopyConv(Place(Memory.POOL, table[base]), chosen, table[column])
        self._bases[request], self._chosen[request] = column, 0

    def _after(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        table, base = self._tables[request], self._bases[request]
        self._chosen[request] = window.accepted
        before = self.answers[request].before(index)
        copy = None
        if self.setup.block is not None:
            copy = align_postprocess(before, window.length, len(window.drafts), window.kept, self.setup.block)
        if copy is not None:
            target = table[copy.destination]
            yield CopyState(Place(Memory.POOL, table[base + copy.bias]), target)
            yield CopyConv(Place(Memory.POOL, table[base]), copy.bias, target)
            yield Expect(request, before + 1 + copy.bias, target, target)
            if copy.destination == base:
                # The step works in this block, so no kept token lies past its end: the state that was moved to the front
                # is the running one, and the next step reads it there.
                self._chosen[request] = 0
        chosen = self._chosen[request]
        yield Expect(request, self._end(request, index), table[base + chosen], table[base], chosen)


class CopyPlanner(Planner):
    """(b) The pool is written after sampling only; scratch has a row of states and one window a batch row."""

    def _begin(self, request: int) -> int:
        if request == 0:
            self._slots: list[int] = []
            self._snapshots: list[int] = []
        self._slots += self._take(1)
        if self.setup.interval is not None:
            self._snapshots += self._take(1)
        return self._slots[request]

    def _verify(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        slot = self._slots[request]
        places = tuple(Place(Memory.SCRATCH, self._place(row, t)) for t in range(window.length))
        yield Verify(row, request, index, slot, slot, 0, Place(Memory.SCRATCH, self._place(row, 0)), places)

    def _place(self, row: int, position: int) -> int:
        return 1 + row * self.setup.width + position

    def _after(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        before, slot = self.answers[request].before(index), self._slots[request]
        if self.setup.interval is not None:
            step = track_step(before, window.kept, self.setup.interval)
            if step is not None:
                yield from self._to(row, step, self._snapshots[request])
                yield Expect(request, before + step + 1, self._snapshots[request], self._snapshots[request])
        yield from self._to(row, window.accepted, slot)
        yield Expect(request, self._end(request, index), slot, slot)

    def _to(self, row: int, position: int, slot: int) -> Iterator[Operation]:
        """Copy the state after ``position`` + 1 tokens: temporal by slot, convolution by offset."""
        yield CopyState(Place(Memory.SCRATCH, self._place(row, position)), slot)
        yield CopyConv(Place(Memory.SCRATCH, self._place(row, 0)), position, slot)


class RecoverPlanner(Planner):
    """(c) One slot a request; with aligned blocks one a block, and the checkpoint moves on before a step needs the next."""

    def _begin(self, request: int) -> int:
        if request == 0:
            self._tables: list[list[int]] = []
            self._columns: list[int] = []
        answer, block = self.answers[request], self.setup.block
        columns = 1 if block is None else running_column(answer.reach, block) + 1
        self._tables.append(self._take(columns))
        self._columns.append(0 if block is None else running_column(answer.computed, block))
        return self._slot(request)

    def _slot(self, request: int) -> int:
        return self._tables[request][self._columns[request]]

    def _verify(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        if self.setup.block is not None:
            column = running_column(self.answers[request].before(index) + window.length, self.setup.block)
            if column != self._columns[request]:
                source = Place(Memory.POOL, self._slot(request))
                self._columns[request] = column
                yield CopyState(source, self._slot(request))
                yield CopyConv(source, 0, self._slot(request))
        slot = self._slot(request)
        yield Verify(row, request, index, slot, slot, 0, Place(Memory.POOL, slot))

    def _after(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        source, table = self._slot(request), self._tables[request]
        before = self.answers[request].before(index)
        block = self.setup.block or sys.maxsize  # without blocks no boundary is in reach
        plan = recover_plan(before, window.kept, window.length, self.setup.width, block, len(table))
        held = Place(Memory.POOL, source)
        # A state that ends on the boundary is the final one too, in the same block: one write is enough for a plan.
        if plan.boundary is not None and plan.boundary != plan.final:
            target = table[plan.boundary]
            yield Rebuild(row, source, plan.boundary_length, target)
            yield CopyConv(held, plan.boundary_length - 1, target)
            yield Expect(request, before + plan.boundary_length, target, target)
        if plan.final is not None:
            target = table[plan.final]
            yield Rebuild(row, source, plan.length, target)
            yield CopyConv(held, plan.length - 1, target)
            self._columns[request] = plan.final
            yield Expect(request, self._end(request, index), target, target)


class ReplayPlanner(Planner):
    """(d) One slot and a ring a request; folded when another window might not fit."""

    def _begin(self, request: int) -> int:
        if request == 0:
            self._slots: list[int] = []
            self._pending: list[int] = []
        self._slots += self._take(1)
        self._pending.append(0)
        return self._slots[request]

    def _verify(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        slot = self._slots[request]
        place = Place(Memory.SCRATCH, 1 + row)
        yield Verify(row, request, index, slot, slot, 0, place, replayed=True)

    def _after(self, row: int, request: int, index: int, window: Window) -> Iterator[Operation]:
        assert self.setup.capacity is not None
        slot = self._slots[request]
        yield Push(row, request, window.kept)
        yield CopyConv(Place(Memory.SCRATCH, 1 + row), window.accepted, slot)
        self._pending[request] += window.kept
        if self._pending[request] + self.setup.width > self.setup.capacity:
            yield Fold(request, slot)
            self._pending[request] = 0
        yield Expect(request, self._end(request, index), slot, slot, pending=self._pending[request])
