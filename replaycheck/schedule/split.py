"""The split compiler: the calls of warm without store and restore; the state is carried live.

Each checkpoint of warm is a register that is written once, straight from the call that computed it (a tap), and read by
the calls that continue from it. Nothing is copied, and no register is reused while it is needed. ``split`` keeps registers
in fp32; ``split-rounded`` casts once to the pool dtype at each store. So both share warm's cuts and kernels, and none of
its slots, copies and restores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from replaycheck.schema.arm import Arm

from .operations import Begin, Branch, End, GroupPlan, Run, Span, Store, without_discarded
from .rows import Track, row, runs, snapshot, tracks
from .slots import Slots
from .speculation.lag import lags
from .speculation.rows import passes, reference_row, verifies
from .steps import Checkpoint, Clear, Commit, Compute, Row, Schedule, Snapshot, Step

ZERO = 1
"""The register of the state of no tokens."""


@dataclass
class _Line:
    """A request on one track: the register that its next row reads, and the live one that its rows write, once there is."""

    track: Track
    source: int
    live: int | None = None
    restored: str | None = None


def compile_split(arm: Arm, group: str, plan: GroupPlan) -> Schedule:
    """Compile for ``split`` or ``split-rounded``; the two differ in the executor's registers only."""
    split = _Split(arm, plan)
    for operation in plan.operations:
        if isinstance(operation, Begin):
            split.begin(operation)
        elif isinstance(operation, Branch):
            split.branch(operation)
        elif isinstance(operation, Run):
            kept = without_discarded(operation, plan.requests)
            for run in passes(kept, arm) if kept.spans else ():
                split.run(run)
        elif isinstance(operation, Store):
            split.store(operation)
        elif isinstance(operation, End):
            split.end(operation)
    return Schedule(arm, group, plan.requests, tuple(split.steps), split.registers.count, expected_hits=0)


class _Split:
    def __init__(self, arm: Arm, plan: GroupPlan) -> None:
        self.steps: list[Step] = [Clear(ZERO)]
        self.registers = Slots(ZERO + 1)
        self._arm = arm
        self._requests = plan.requests
        self._needed = plan.needed()
        self._lags = lags(plan, arm)
        self._kept = {each.stored.take.checkpoint.name for each in plan.operations if isinstance(each, Store)}
        self._forks = [each for each in plan.operations if isinstance(each, Branch)]
        self._lines: dict[int, list[_Line]] = {}
        self._names: dict[tuple[str, str], int] = {}

    def _register(self, name: str, track: str = "") -> int:
        if (name, track) not in self._names:
            self._names[name, track] = self.registers.take()
        return self._names[name, track]

    def begin(self, begin: Begin) -> None:
        """The tracks continue from the register of a checkpoint, or from nothing."""
        wanted = [track for track in tracks(self._arm) if track.scored or self._needed[begin.request]]
        name = begin.restore.name if begin.restore else None
        source = self._register(name) if name else ZERO
        self._lines[begin.request] = [_Line(track, source, restored=name) for track in wanted]

    def branch(self, branch: Branch) -> None:
        """The tracks continue from registers that the source's last row wrote."""
        wanted = [
            line.track for line in self._lines[branch.source] if line.track.scored or self._needed[branch.request]
        ]
        self._lines[branch.request] = [
            _Line(track, self._register(branch.state.name, str(track.part))) for track in wanted
        ]

    def run(self, run: Run) -> None:
        """The rows; what they leave behind goes straight to its register."""
        rows = [
            self._row(span, line)
            for span in run.spans
            for line in self._lines[span.request]
            if runs(line.track, self._needed[span.request], span.piece.a)
        ]
        self.steps.append(Compute(tuple(rows)))

    def _row(self, span: Span, line: _Line) -> Row:
        taken = [take.checkpoint for take in span.takes if line.track.stores and take.checkpoint.name in self._kept]
        snapshots = [snapshot(span.piece, c, self._register(c.name)) for c in taken]
        snapshots += [self._for_fork(span, fork, line) for fork in self._forks if self._ends_at(span, fork.state)]
        if line.live is None:
            line.live = self.registers.take()
        made = row(span, self._arm, line.track, line.source, line.live, tuple(snapshots), line.restored)
        line.source, line.restored = line.live, None
        window, request = span.piece.window, self._requests[span.request]
        if window is None or not verifies(span, self._arm):
            return made
        made = replace(made, lag=self._lags.get((span.request, span.piece.a)))
        return reference_row(made, self._arm, request.number(window), window)

    @staticmethod
    def _ends_at(span: Span, state: Checkpoint) -> bool:
        return span.request == state.request and span.piece.b == state.position

    def _for_fork(self, span: Span, fork: Branch, line: _Line) -> Snapshot:
        return snapshot(span.piece, fork.state, self._register(fork.state.name, str(line.track.part)))

    def store(self, store: Store) -> None:
        """The checkpoint's register holds it by now."""
        name = store.stored.take.checkpoint.name
        self.steps.append(Commit(name, self._register(name)))

    def end(self, end: End) -> None:
        """Live registers are free again; those of checkpoints are kept."""
        for line in self._lines.pop(end.request):
            if line.live is not None:
                self.steps.append(self.registers.give(line.live))
