"""Run schedules of one group in lockstep and record what they say and what they restore.

The executor decides nothing: it does a schedule's steps in order, and whatever is wrong with a plan shows in the recording.
At each tick every schedule does its steps up to the next compute step, and all their rows go through the network together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.audit.labels import Audit, AuditMode, TensorBytes
from replaycheck.audit.provenance import bf16_share
from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt, WrittenState
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Checkpoint, Clear, Commit, Compute, Copy, Evict, Free, Row, Schedule, Source
from replaycheck.schema.arm import CHUNK, Compiler, PoolDtype
from replaycheck_kernels.precision import Precision

from .batch import Result, run_rows
from .network import Network, RowInput, Tap
from .observer import Observer
from .own_answers import OwnAnswers
from .pool import TORCH_DTYPE, Pool
from .rollback import Verify, kernel_name


class ArmRun:
    """One schedule in progress: its pool, where it stands, what it has recorded. The audit looks at stored states.

    ``pool``: the class of its slots. ``observer``: told of each step, if there is one.
    """

    observer: Observer | None = None

    def __init__(
        self, schedule: Schedule, network: Network, audit: AuditMode = AuditMode.RECORD, pool: type[Pool] = Pool
    ) -> None:
        self.schedule = schedule
        self.network = network
        self._pool = _pool(schedule, network, pool)
        self._steps = enumerate(schedule.steps)
        self._simulation = simulate(schedule)
        self._labels = Audit(f"group {schedule.group!r}, arm {schedule.arm.name}", audit)
        self._checkpoints = schedule.checkpoints()
        self._logits: dict[int, list[Tensor]] = defaultdict(list)
        self._restores: list[StateAt] = []
        self._written: list[WrittenState] = []
        self._kernels: dict[str, set[str]] = defaultdict(set)
        self._hits = 0
        self._tokens = 0
        self._nobodys: dict[int, int] = {}
        self._own = OwnAnswers(schedule.requests) if schedule.experiment == "free" else None

    def next_rows(self) -> tuple[Row, ...]:
        """Do steps up to the next compute step; its rows, or none when the schedule is over."""
        for number, step in self._steps:
            for text in self._simulation.by_step.get(number, ()):
                self._labels.misplaced(text)
            if isinstance(step, Compute):
                self._nobodys = _nobodys(step)
                return step.rows
            if isinstance(step, Clear):
                self._pool.clear(step.slot)
            elif isinstance(step, Copy):
                self._pool.copy(step.source, step.destination)
            elif isinstance(step, Commit):
                self._audit(self._checkpoints[step.checkpoint], step.slot)
            elif isinstance(step, Free):
                self._pool.free(step.slot)
            else:
                assert isinstance(step, Evict)
            if self.observer:
                self.observer.stepped(step, self._pool)
        return ()

    def inputs(self, row: Row) -> RowInput:
        """The row's tokens and state."""
        plan = self.schedule.requests[row.request]
        taps = tuple(Tap(s.chunk, str(s.source), _covered(row, s.chunk, s.source), s.conv_end) for s in row.snapshots)
        verify = self._verify(row)
        scored = verify.scored if verify else row.b - row.a
        wanted = max(plan.prompt - 1, row.score_from or 0) if row.scored else row.b
        first = min(max(0, wanted - row.a), scored)
        left, before, right = _padding(row)
        if row.restored and row.scored:
            self._hits += 1
            self._restores.append(self._restored(row))
        state = self._pool.load(row.source)
        self._check_restored(row)
        if self.observer:
            self.observer.loaded(row, state)
        right += self._nobodys.get(id(row), 0)
        first, scored = before + first, before + scored
        tokens = self._own.seen_of(row) if self._own else plan.seen_of(row)
        return RowInput(tokens, row.a, str(row.kernel), state, taps, first, verify, scored, left, right)

    def _verify(self, row: Row) -> Verify | None:
        method = self.schedule.arm.rollback
        if method is None or row.kept is None or row.accepted is None:
            return None
        lags = row.lag is not None and self.schedule.arm.compiler is Compiler.WARM
        return Verify(method, row.kept, 1 + row.accepted, lags)

    def take(self, row: Row, result: Result) -> None:
        """Store a row's states, snapshots first, and keep its scored logits."""
        for snap, state in zip(row.snapshots, result.taps, strict=True):
            self._pool.store(snap.destination, state)
        if row.lag and row.lag.after:
            self._pool.lag(row.destination, result.final)
        else:
            self._pool.store(row.destination, result.final)
        if self.observer:
            self.observer.taken(row, result, self._pool)
        self._kernels[str(row.part)].add(self._kernel(row))
        self._tokens += row.b - row.a
        for request in (row.request, *row.shared) if row.scored else ():
            self._logits[request].append(result.logits)
        if self._own and row.scored:
            self._own.take(row, result.logits)

    def _kernel(self, row: Row) -> str:
        kernel, verify = self.network.kernels[str(row.kernel)], self._verify(row)
        return kernel_name(verify.method, kernel, self.network.device) if verify else kernel.name

    def recording(self) -> ArmRecording:
        """Everything the arm did."""
        warm = self.schedule.arm.compiler is Compiler.WARM
        return ArmRecording(
            arm=self.schedule.arm.name,
            turns=tuple(self._turn(index) for index in range(len(self.schedule.requests))),
            restores=tuple(self._restores),
            written=tuple(self._written),
            kernels={part: frozenset(names) for part, names in self._kernels.items()},
            expected_hits=self.schedule.expected_hits,
            proven_hits=self._hits if warm else 0,
            computed_tokens=self._tokens,
            label_mismatches=self._simulation.wrong_labels,
            content_mismatches=self._labels.content,
        )

    def _turn(self, index: int) -> ScoredTurn:
        plan = self.schedule.requests[index]
        positions = np.arange(plan.prompt, plan.end, dtype=np.int32)
        restored = plan.restore is not None and self.schedule.arm.compiler is not Compiler.COLD
        return ScoredTurn(
            plan.trace,
            plan.branch,
            plan.turn,
            plan.cluster,
            positions,
            self._own.answer(index) if self._own else np.array(plan.tokens[plan.prompt : plan.end], np.int32),
            torch.cat(self._logits[index]).to(torch.float32).cpu().numpy(),
            plan.start if restored else None,
            history=self._own.history(index) if self._own else None,
        )

    def _restored(self, row: Row) -> StateAt:
        """The state that a row continues from, as stored."""
        plan = self.schedule.requests[row.request]
        checkpoint = self._checkpoints[str(row.restored)]
        temporal, conv = self._pool.raw(row.source)
        return StateAt(
            plan.trace,
            plan.branch,
            plan.turn,
            checkpoint.position,
            str(checkpoint.written),
            str(self.schedule.arm.pool),
            self.network.config.kda_layers,
            temporal.to(torch.float32).numpy(),
            _bytes(conv),
        )

    def _check_restored(self, row: Row) -> None:
        """What a row continues from has the tensors and bytes of its label; split's registers are no pool."""
        if row.restored is None or self.schedule.arm.compiler is not Compiler.WARM:
            return
        checkpoint = self._checkpoints[row.restored]
        tensors = _tensor_bytes(self._pool.tensors(row.source))
        self._labels.restored(row.source, checkpoint.name, checkpoint.position, tensors)

    def _audit(self, checkpoint: Checkpoint, slot: int) -> None:
        """Label and provenance of a checkpoint as it is written; split's registers are no pool."""
        if self.schedule.arm.compiler is not Compiler.WARM:
            return
        pool, tensors = self.schedule.arm.pool, self._pool.tensors(slot)
        self._labels.stored(slot, checkpoint.name, checkpoint.position, _tensor_bytes(tensors))
        temporal = tensors["temporal"]
        values = temporal.to(torch.float32).numpy() if pool is PoolDtype.BF16 else temporal.numpy()
        share = np.array([[bf16_share(head, pool) for head in layer] for layer in values])
        layers = self.network.config.kda_layers
        self._written.append(WrittenState(str(checkpoint.written), layers, share, pool is PoolDtype.BF16))


def _padding(row: Row) -> tuple[int, int, int]:
    """Masked columns before what a row's state sees, padding that is seen before its tokens, masked columns after it."""
    plan = row.columns
    if plan is None:
        return 0, 0, 0
    return plan.first, plan.left - plan.first, plan.left + row.b - row.a + plan.right - plan.last


def _nobodys(step: Compute) -> dict[int, int]:
    """The columns of a pass's padding rows, as further columns of its last row: a pass is one line of columns."""
    if not step.padding:
        return {}
    last = step.rows[-1]
    width = last.b - last.a + (last.columns.left + last.columns.right if last.columns else 0)
    return {id(last): step.padding * width}


def _covered(row: Row, chunk: int, source: Source) -> int:
    """Tokens of the row that a snapshot covers."""
    if source is Source.FINAL:
        return row.b - row.a
    return chunk if source is Source.POSITION else chunk * CHUNK


def _bytes(conv: Tensor) -> NDArray[np.uint8]:
    """Raw bytes of a conv state, one row a layer."""
    return conv.contiguous().flatten(1).view(torch.uint8).numpy()


def _tensor_bytes(tensors: Mapping[str, Tensor]) -> dict[str, TensorBytes]:
    return {
        name: TensorBytes(
            str(part.dtype).removeprefix("torch."),
            tuple(part.shape),
            part.contiguous().view(torch.uint8).numpy().ravel(),
        )
        for name, part in tensors.items()
    }


def _pool(schedule: Schedule, network: Network, slots: type[Pool]) -> Pool:
    arm, empty = schedule.arm, network.empty_state()
    wanted = TORCH_DTYPE[arm.pool]
    live = arm.compiler in (Compiler.SPLIT, Compiler.SPLIT_ROUNDED)
    return slots(
        schedule.slots,
        empty,
        network.dtype if live else wanted,
        torch.bfloat16 if network.recipe.activation is Precision.BF16 else network.dtype,
        # Registers of both split compilers begin alike, so what they share is computed once; warm and cold never share.
        "live" if live else str(arm.compiler),
        wanted if arm.compiler is Compiler.SPLIT_ROUNDED and wanted is not network.dtype else None,
    )


@torch.no_grad()
def execute(runs: Sequence[ArmRun]) -> list[ArmRecording]:
    """Run all schedules to their end, in lockstep."""
    pending = {id(run): run.next_rows() for run in runs}
    while any(pending.values()):
        jobs: dict[int, list[tuple[ArmRun, Row]]] = defaultdict(list)
        for run in runs:
            jobs[id(run.network)] += [(run, row) for row in pending[id(run)]]
        for mine in jobs.values():
            if mine:
                results = run_rows(mine[0][0].network, [run.inputs(row) for run, row in mine])
                for (run, row), result in zip(mine, results, strict=True):
                    run.take(row, result)
        pending = {id(run): run.next_rows() if pending[id(run)] else () for run in runs}
    return [run.recording() for run in runs]
