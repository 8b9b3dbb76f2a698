"""The warm compiler: restore a checkpoint into a working slot, compute the tail in place, store checkpoints, decode.

Slots are reused: a working slot goes back to a free list when its request is over, and the next request gets the slot that
was freed last. Checkpoints keep theirs until they are evicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from replaycheck.schema.arm import Arm, Rollback

from .operations import Abort, Begin, Branch, End, GroupPlan, Move, Operation, Run, Span, Store, Swap, Tier
from .padding import compute
from .prefix.job import How, Take
from .rows import Track, row, runs, snapshot, tracks
from .slots import Slots
from .speculation.lag import lags
from .speculation.rows import passes, positions, verifies, verify_row
from .steps import Clear, Commit, Copy, CopyReason, Evict, RequestPlan, Row, Schedule, Snapshot, Step


@dataclass
class _Line:
    """A request on one track. given: the working slot was given to the cache. restored: until its first row.

    columns: with a rollback method that stores the state of every position of a window, their slots; of rollback slots,
    one of them is the working slot.
    """

    track: Track
    slot: int
    restored: str | None = None
    given: bool = False
    buffers: dict[int, int] = field(default_factory=dict)
    columns: list[int] = field(default_factory=list)


def compile_warm(arm: Arm, group: str, plan: GroupPlan) -> Schedule:
    """Compile for an arm with the cache on."""
    warm = _Warm(arm, plan)
    for operation in plan.operations:
        warm.do(operation)
    return Schedule(arm, group, plan.requests, tuple(warm.steps), warm.slots.count, plan.hits)


class _Warm:
    def __init__(self, arm: Arm, plan: GroupPlan) -> None:
        self.steps: list[Step] = []
        self.slots = Slots()
        self._arm = arm
        self._requests = plan.requests
        self._needed = plan.needed()
        self._lags = lags(plan, arm)
        self._kept = {each.stored.take.checkpoint.name for each in plan.operations if isinstance(each, Store)}
        self._lines: dict[int, list[_Line]] = {}
        self._stored: dict[str, int] = {}

    def do(self, operation: Operation) -> None:
        """Append the steps of an operation."""
        if isinstance(operation, Begin):
            self._begin(operation)
        elif isinstance(operation, Branch):
            self._branch(operation)
        elif isinstance(operation, Run):
            self._run(operation)
        elif isinstance(operation, Store):
            self._store(operation)
        elif isinstance(operation, Move):
            self._move(operation)
        elif isinstance(operation, Swap):
            self._swap(operation)
        elif isinstance(operation, Tier):
            self._tier(operation)
        elif isinstance(operation, Abort):
            self._abort(operation)
        else:
            self._end(operation)

    def _begin(self, begin: Begin) -> None:
        """Put the restored state, or the state of no tokens, into the working slots."""
        wanted = [track for track in tracks(self._arm) if track.scored or self._needed[begin.request]]
        restore = begin.restore.name if begin.restore else None
        self._lines[begin.request] = [_Line(track, self.slots.take(), restore) for track in wanted]
        for line in self._lines[begin.request]:
            if restore is None:
                self.steps.append(Clear(line.slot))
            else:
                self.steps.append(Copy(CopyReason.RESTORE, restore, self._stored[restore], line.slot))

    def _branch(self, branch: Branch) -> None:
        sources = [line for line in self._lines[branch.source] if line.track.scored or self._needed[branch.request]]
        self._lines[branch.request] = [_Line(line.track, self.slots.take()) for line in sources]
        for source, line in zip(sources, self._lines[branch.request], strict=True):
            self.steps.append(Copy(CopyReason.FORK, branch.state.name, source.slot, line.slot))

    def _move(self, move: Move) -> None:
        """The running state leaves a block that is full; the block stays if it was stored, else it is free."""
        for line in self._lines[move.request]:
            if runs(line.track, self._needed[move.request], move.state.position):
                self._drop_columns(line)
                old, line.slot = line.slot, self.slots.take()
                self.steps.append(Copy(CopyReason.FORK, move.state.name, old, line.slot))
                if not line.given:
                    self.steps.append(self.slots.give(old))
                line.given = False

    def _run(self, run: Run) -> None:
        for each in passes(run, self._arm):
            self._pass(each)

    def _pass(self, run: Run) -> None:
        rows = [
            self._row(span, line)
            for span in run.spans
            for line in self._lines[span.request]
            if runs(line.track, self._needed[span.request], span.piece.a)
        ]
        self.steps.append(compute(rows, self._arm.padding))
        for span in run.spans:
            self._roll_back(span)
            for line in self._keeper(span):
                for take in span.takes:
                    if take.how is How.COPY and take.buffer is not None:
                        self._copy_to(take, line, self._buffer(line, take.buffer))
                    elif self._arm.policy.pipeline > 1 and take.buffer is None and take.checkpoint.name in self._kept:
                        self._set_aside(take, line)

    def _row(self, span: Span, line: _Line) -> Row:
        taken = self._snapshots(span, line) if line.track.stores else ()
        restored, line.restored = line.restored, None
        source, window = line.slot, span.piece.window
        made = row(span, self._arm, line.track, source, source, taken, restored)
        if window is None or not verifies(span, self._arm):
            return made
        states: tuple[Snapshot, ...] = ()
        if self._arm.rollback in (Rollback.SLOTS, Rollback.COPY):
            self._widen(line, window.length)
            states = positions(window, line.columns)
            made = replace(made, destination=line.columns[window.kept - 1])
        if self._arm.rollback is Rollback.SLOTS:
            line.slot = made.destination
        made = replace(made, lag=self._lags.get((span.request, span.piece.a)))
        return verify_row(made, self._plan(span).number(window), window, states)

    def _plan(self, span: Span) -> RequestPlan:
        return self._requests[span.request]

    def _widen(self, line: _Line, width: int) -> None:
        """A slot for every position of a window. Of rollback slots the working slot is one; copy has them in scratch."""
        if not line.columns and self._arm.rollback is Rollback.SLOTS:
            line.columns.append(line.slot)
        line.columns += [self.slots.take() for _ in range(width - len(line.columns))]

    def _roll_back(self, span: Span) -> None:
        """Rollback copy: the state after the kept tokens comes back from scratch, over all layers at once."""
        window = span.piece.window
        if window is None or self._arm.rollback is not Rollback.COPY:
            return
        name = self._plan(span).verified(span.request, self._plan(span).number(window)).name
        for line in self._lines[span.request]:
            if runs(line.track, self._needed[span.request], span.piece.a):
                self.steps.append(Copy(CopyReason.ROLLBACK, name, line.columns[window.kept - 1], line.slot))

    def _snapshots(self, span: Span, line: _Line) -> tuple[Snapshot, ...]:
        """Slots and snapshots of the states that the kernel writes itself."""
        found = []
        for take in span.takes:
            if take.how is How.SNAPSHOT and (take.buffer is not None or take.checkpoint.name in self._kept):
                slot = self.slots.take() if take.buffer is None else self._buffer(line, take.buffer)
                if take.buffer is None:
                    self._stored[take.checkpoint.name] = slot
                found.append(snapshot(span.piece, take.checkpoint, slot))
        return tuple(found)

    def _buffer(self, line: _Line, number: int) -> int:
        """One of the slots that a request has beside its working slot, taken when it is first used."""
        if number not in line.buffers:
            line.buffers[number] = self.slots.take()
        return line.buffers[number]

    def _keeper(self, span: Span) -> list[_Line]:
        """The line whose states are stored, if it computes the span."""
        needed = self._needed[span.request]
        lines = self._lines[span.request]
        return [line for line in lines if line.track.stores and runs(line.track, needed, span.piece.a)]

    def _copy_to(self, take: Take, line: _Line, slot: int) -> None:
        self.steps.append(Copy(CopyReason.FORK, take.checkpoint.name, line.slot, slot))

    def _store(self, store: Store) -> None:
        evicted, take = store.stored.evicts, store.stored.take
        if evicted is not None:
            self._evict(evicted.name)
        line = next(line for line in self._lines[store.request] if line.track.stores)
        name = take.checkpoint.name
        if take.buffer is not None:
            self._stored[name] = self._buffer(line, take.buffer)
            del line.buffers[take.buffer]
        elif name not in self._stored:
            self._set_aside(take, line)
        self.steps.append(Commit(name, self._stored[name]))

    def _set_aside(self, take: Take, line: _Line) -> None:
        """Put the working state where it will be stored: with a pipeline before the next pass, which the store is not."""
        name = take.checkpoint.name
        if take.how is How.COPY:
            self._stored[name] = self.slots.take()
            self._copy_to(take, line, self._stored[name])
        elif take.how is How.DONATE:
            self._stored[name], line.given = line.slot, True

    def _evict(self, name: str) -> None:
        slot = self._stored.pop(name)
        self.steps += [Evict(name, slot), self.slots.give(slot)]

    def _swap(self, swap: Swap) -> None:
        """The working slots that are still computed move to the other side; buffers, and what they held, are given up."""
        needed, lines = self._needed[swap.request], self._lines.pop(swap.request)
        self._lines[swap.request] = [line for line in lines if runs(line.track, needed, swap.state.position)]
        for line in lines:
            if line not in self._lines[swap.request]:
                self._give(line)
        for line in self._lines[swap.request]:
            self._drop_columns(line)
            old, line.slot = line.slot, self.slots.take(host=swap.out)
            self.steps.append(Copy(CopyReason.TIER, swap.state.name, old, line.slot))
            if not line.given:
                self.steps.append(self.slots.give(old))
            line.given = False
            self._drop_buffers(line)

    def _tier(self, tier: Tier) -> None:
        old, new = self._stored[tier.state.name], self.slots.take(host=tier.out)
        self._stored[tier.state.name] = new
        self.steps += [
            Copy(CopyReason.TIER, tier.state.name, old, new),
            Evict(tier.state.name, old),
            self.slots.give(old),
            Commit(tier.state.name, new),
        ]

    def _abort(self, abort: Abort) -> None:
        """The slot that the load was to fill goes back unwritten, and whoever takes it next must not read it."""
        self.slots.give(self.slots.take())
        self._evict(abort.state.name)

    def _end(self, end: End) -> None:
        for line in self._lines.pop(end.request):
            self._give(line)

    def _give(self, line: _Line) -> None:
        """A line is over."""
        if not line.given:
            self.steps.append(self.slots.give(line.slot))
        self._drop_buffers(line)
        self._drop_columns(line)

    def _drop_columns(self, line: _Line) -> None:
        """The states of the other positions of the last window are of no use any more."""
        self.steps += [self.slots.give(slot) for slot in line.columns if slot != line.slot]
        line.columns = []

    def _drop_buffers(self, line: _Line) -> None:
        self.steps += [self.slots.give(slot) for _, slot in sorted(line.buffers.items())]
        line.buffers = {}
