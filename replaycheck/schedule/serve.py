"""Serve a group as an engine would: continuous batching over a prefix cache, with forks, preemptions and tiers.

A forward pass first takes a token of each answer that is being decoded, then pieces of prompts, as far as the budget goes.
Requests that are no batch mates run one after the other.

With a pipeline of two, a pass is planned and launched before the results of the one before are seen. So what a pass stores
can be hit two passes later, and the end of an answer is seen when one more token of it has been run: that token is
discarded, and the request's slots are free only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replaycheck.errors import InternalError, UsageError
from replaycheck.schema.arm import Kernel
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Group

from .operations import Abort, Begin, Branch, End, Move, Operation, Run, Span, Store, Swap, Tier
from .prefix.find import prefix_cache
from .prefix.job import Job, Piece
from .speculation.windows import Window
from .steps import Checkpoint, Part, Written
from .tasks import Task, make_tasks, waves

NO_LIMIT = 1 << 40
"""Tokens of a forward pass without a budget: more than any trace has."""


@dataclass(frozen=True)
class _Suspended:
    request: int
    swapped: Checkpoint | None


@dataclass(frozen=True)
class _Flight:
    """A pass that was launched and whose results weren't seen yet. forked: requests that were forked from its rows."""

    spans: tuple[Span, ...]
    forked: tuple[int, ...]


class Server:
    """Serves once; ``operations`` and ``tasks`` are the outcome."""

    def __init__(self, group: Group, policy: Policy, answer: Kernel) -> None:
        self.operations: list[Operation] = []
        self.tasks = make_tasks(group)
        self._group = group
        self._budget = policy.budget or NO_LIMIT
        self._depth = policy.pipeline
        self._flights: list[_Flight] = []
        self._answer = answer
        self._cache = prefix_cache(policy)
        self._running: list[int] = []
        self._suspended: list[_Suspended] = []
        self._forks = [index for index, task in enumerate(self.tasks) if task.fork]
        self._host: set[str] = set()
        self._columns: dict[int, int | None] = {}

    def serve(self) -> None:
        """All waves. A suspended request resumes after the next wave, or before one that continues its answer."""
        for wave in waves(self.tasks):
            self._resume([each for each in self._suspended if self._continued(each, wave)])
            before = list(self._suspended)
            self._serve([index for index in wave if self.tasks[index].fork is None])
            self._resume(before)
        while self._suspended:
            self._resume(list(self._suspended))
        if self._forks:
            stuck = self.tasks[self._forks[0]].path.turn
            raise UsageError(f"group {self._group.group!r}: the answer that {stuck!r} forks from never gets that far")

    def _continued(self, suspended: _Suspended, wave: list[int]) -> bool:
        turn = self.tasks[suspended.request].path
        paths = [self.tasks[index].path for index in wave]
        return any(path.trace == turn.trace and turn.turn in [node.turn for node in path.nodes[:-1]] for path in paths)

    def _resume(self, those: list[_Suspended]) -> None:
        waiting = []
        for each in those:
            self._suspended.remove(each)
            if each.swapped is None:
                waiting.append(each.request)
            else:
                self.operations.append(Swap(each.request, each.swapped, out=False))
                self._columns.pop(each.request, None)
                self._running.append(each.request)
        self._serve(waiting)

    def _serve(self, waiting: list[int]) -> None:
        """Until nothing runs or waits. What is in flight then has discarded tokens only."""
        waiting = list(waiting)
        while waiting or self._running:
            spans = self._running_spans()
            self._admit(waiting, spans)
            if spans:
                self._flights.append(self._launch(spans))
            elif not self._flights and (waiting or self._running):
                raise InternalError(f"group {self._group.group!r}: requests {waiting + self._running} make no progress")
            if len(self._flights) == self._depth or (self._flights and not spans):
                self._settle(self._flights.pop(0))

    def _running_spans(self) -> list[Span]:
        """Decode steps first, then prefill, each in order of admission."""
        spans: list[Span] = []
        decoding = [i for i in self._running if self.tasks[i].job.position >= self.tasks[i].job.goal]
        for index in decoding + [i for i in self._running if i not in decoding]:
            self._add_span(index, spans)
        return spans

    def _admit(self, waiting: list[int], spans: list[Span]) -> None:
        """First come, first served; the first that has to wait stops the others."""
        while waiting and self._left(spans) > 0:
            job = self.tasks[waiting[0]].job
            unseen = [*spans, *(span for flight in self._flights for span in flight.spans)]
            pending = [(self.tasks[span.request].job, take) for span in unseen for take in span.takes]
            if self._cache.defers(job, pending):
                return
            index = waiting.pop(0)
            self._begin(index)
            if not self._preempt(index, self.tasks[index].job.position):
                self._add_span(index, spans)

    def _left(self, spans: list[Span]) -> int:
        return self._budget - sum(span.piece.size for span in spans)

    def _begin(self, index: int) -> None:
        task = self.tasks[index]
        found = self._cache.admit(task.job)
        while found is not None and found.name in self._host:
            self._host.remove(found.name)
            if not task.aborted:
                self.operations.append(Tier(found, out=False))
                break
            self.operations.append(Abort(found))
            self._cache.release(task.job)
            self._cache.drop(found)
            found = self._cache.admit(task.job)
        self.operations.append(Begin(index, found))
        task.job.position = found.position if found else 0
        task.first = task.job.position
        self._columns.pop(index, None)
        self._running.append(index)

    def _add_span(self, index: int, spans: list[Span]) -> None:
        left = self._left(spans)
        piece = self._piece(self.tasks[index], left) if left > 0 else None
        if piece is not None:
            task = self.tasks[index]
            takes = tuple(self._cache.takes(task.job, piece))
            if piece.b > task.job.computed_end:
                spans.append(Span(index, piece, takes, score_from=piece.b))
                return
            again = task.scored if piece.a < task.scored and task.scored >= task.job.prompt else None
            spans.append(Span(index, piece, takes, again, self._sharing(index, piece.b)))

    def _piece(self, task: Task, left: int) -> Piece | None:
        job, window, room = task.job, None, self._until_preempted(task)
        if job.position < job.goal:
            part, end = Part.TAIL, self._cache.cut(job, left)
        elif job.position >= job.computed_end:
            return self._discarded(job)
        elif self._answer is Kernel.RECURRENT:
            window = task.window(min(room, self._until_forked(job)), left)
            part, end = Part.ANSWER, job.position + window.kept
        else:
            part, end = Part.ANSWER, min(job.position + left, job.computed_end)
        end = min(end, job.position + room)
        return Piece(job.position, end, part, window) if end > job.position else None

    def _discarded(self, job: Job) -> Piece | None:
        """The token after an answer's last input, while nobody has seen that the answer is over."""
        if job.position == job.end:
            return None
        window = Window(job.position - job.prompt) if self._answer is Kernel.RECURRENT else None
        return Piece(job.position, job.end, Part.ANSWER, window)

    def _until_forked(self, job: Job) -> int:
        """Tokens up to the next state that another answer is forked from."""
        forks = [fork for index in self._forks if (fork := self.tasks[index].fork) is not None]
        return min((tokens - job.position for source, tokens in forks if source == job.index), default=NO_LIMIT)

    def _until_preempted(self, task: Task) -> int:
        """Tokens that may be computed before the task is taken off the engine."""
        if task.preemption is None or task.first + task.preemption.after < task.job.position:
            return NO_LIMIT
        return task.first + task.preemption.after - task.job.position

    def _sharing(self, index: int, tokens: int) -> tuple[int, ...]:
        """Answers that were or will be forked from this one and have its first ``tokens`` tokens."""
        return tuple(other for other in range(len(self.tasks)) if self._has(other, index, tokens))

    def _has(self, other: int, index: int, tokens: int) -> bool:
        fork = self.tasks[other].fork
        while fork is not None:
            if fork[0] == index:
                return tokens <= fork[1]
            fork = self.tasks[fork[0]].fork
        return False

    def _launch(self, spans: list[Span]) -> _Flight:
        """Forward passes are done in order, so whatever is launched later finds the states of this one."""
        for span in spans:
            self._move(span)
        self.operations.append(Run(tuple(spans)))
        for span in spans:
            task = self.tasks[span.request]
            task.job.position = span.piece.b
            task.scored = max(task.scored, span.piece.b)
        return _Flight(tuple(spans), tuple(self._forked(spans)) if self._depth > 1 else ())

    def _settle(self, flight: _Flight) -> None:
        """See the results of a pass."""
        for span in flight.spans:
            self._after(span)
        for index in flight.forked:
            self._stop(index, self.tasks[index].first)

    def _move(self, span: Span) -> None:
        """Before a call that runs to another block than the state is in, drafts included, the state is copied there.

        A state that ends on a block's end is the last of that block (None): the next call runs to another one.
        """
        block, piece = self._cache.block, span.piece
        if block is None:
            return
        column = (piece.a + piece.size - 1) // block
        if self._columns.get(span.request, column) != column:
            self.operations.append(Move(span.request, self._label(span.request)))
        self._columns[span.request] = column if piece.b % block else None

    def _label(self, index: int) -> Checkpoint:
        """A name for the working state of a request."""
        job = self.tasks[index].job
        return job.checkpoint(job.position, Written.DECODE if job.position > job.prompt else Written.FINAL)

    def _after(self, span: Span) -> None:
        index, job = span.request, self.tasks[span.request].job
        if span.piece.b > job.computed_end:
            return
        for stored in self._cache.keep(job, span.piece, list(span.takes)):
            self.operations.append(Store(index, stored))
        if self._depth == 1:
            for other in self._fork_from(index):
                self._stop(other, job.position)
        self._stop(index, span.piece.b)

    def _stop(self, index: int, reached: int) -> None:
        """Take a request off the engine if it is over or its time has come."""
        if reached == self.tasks[index].job.computed_end:
            self._finish(index)
        else:
            self._preempt(index, reached)

    def _forked(self, spans: list[Span]) -> Iterator[int]:
        """Forks from the live states that a launched pass leaves; the next one runs them, too."""
        for span in spans:
            if span.piece.b <= self.tasks[span.request].job.computed_end:
                yield from self._fork_from(span.request)

    def _fork_from(self, index: int) -> Iterator[int]:
        """Begin the requests that are forked from where a request is."""
        position = self.tasks[index].job.position
        for other in list(self._forks):
            task = self.tasks[other]
            if task.fork == (index, position):
                self._forks.remove(other)
                self.operations.append(Branch(other, index, self._label(index)))
                task.job.position = task.job.goal = task.scored = task.first = position
                self._columns.pop(other, None)
                self._running.append(other)
                yield other

    def _finish(self, index: int) -> None:
        task = self.tasks[index]
        for stored in self._cache.finish(task.job):
            self.operations.append(Store(index, stored))
        self._cache.release(task.job)
        self.operations.append(End(index))
        self._running.remove(index)
        if task.offload:
            self._offload(index)

    def _offload(self, index: int) -> None:
        """States that the request stored, are still there and that nobody reads, move to the host."""
        mine = [
            each.stored.take.checkpoint for each in self.operations if isinstance(each, Store) and each.request == index
        ]
        for state in mine:
            if state.name in self._cache.store and not self._cache.store.held(state.name):
                self._host.add(state.name)
                self.operations.append(Tier(state, out=True))

    def _preempt(self, index: int, reached: int) -> bool:
        """Take a request off the engine if its time has come."""
        task = self.tasks[index]
        if task.preemption is None or reached != task.first + task.preemption.after:
            return False
        swap, task.preemption = task.preemption.resume == "swap", None
        self._cache.suspend(task.job)
        self._running.remove(index)
        state = self._label(index) if swap else None
        self.operations.append(Swap(index, state, out=True) if state else End(index))
        if not swap:
            task.job.goal = max(task.job.prompt, task.job.position + 1)
        self._suspended.append(_Suspended(index, state))
        return True
