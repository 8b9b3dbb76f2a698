"""One schedule on one model: the logical steps, with caches of the library in place of slots.

cold, warm   a slot holds a cache. A copy of a slot is a deep copy; what is computed goes on in place.
split        a slot holds how its state was made: the pieces of tokens, call by call. A request that continues from it makes
             that state again, by the same calls from the first token, so nothing is ever copied or restored.

A state inside a call is taken by cutting the call there, in every arm that has the checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from replaycheck.audit.provenance import bf16_share
from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt, WrittenState
from replaycheck.errors import InternalError
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import (
    Checkpoint,
    Clear,
    Commit,
    Compute,
    Copy,
    Evict,
    Free,
    Row,
    Schedule,
    Snapshot,
    Source,
)
from replaycheck.schema.arm import CHUNK, Compiler, Kernel, PoolDtype

from .load import Loaded
from .state import cloned, says, shown

__all__ = ["Play"]


@dataclass(frozen=True)
class _Held:
    """What a slot holds. pieces: the tokens of each call that made it, in order. cache: None if it is to be made again."""

    pieces: tuple[tuple[int, ...], ...] = ()
    cache: Any = None

    @property
    def tokens(self) -> int:
        return sum(map(len, self.pieces))


class Play:
    """A schedule under way."""

    def __init__(self, schedule: Schedule, loaded: Loaded) -> None:
        self._schedule, self._loaded, self._arm = schedule, loaded, schedule.arm
        self._split = schedule.arm.compiler is Compiler.SPLIT
        self._slots: dict[int, _Held] = {}
        self._checkpoints = schedule.checkpoints()
        self._logits: dict[int, list[Tensor]] = defaultdict(list)
        self._kernels: dict[str, set[str]] = defaultdict(set)
        self._restores: list[StateAt] = []
        self._written: list[WrittenState] = []
        self._hits = self._tokens = self._wrong = 0

    @torch.no_grad()
    def recording(self) -> ArmRecording:
        """Do every step, and say what came of it."""
        for step in self._schedule.steps:
            self._do(step)
        return ArmRecording(
            arm=self._arm.name,
            turns=tuple(self._turn(number) for number in range(len(self._schedule.requests))),
            restores=tuple(self._restores),
            written=tuple(self._written),
            kernels={part: frozenset(names) for part, names in self._kernels.items()},
            expected_hits=self._schedule.expected_hits,
            proven_hits=self._hits if self._arm.compiler is Compiler.WARM else 0,
            computed_tokens=self._tokens,
            label_mismatches=simulate(self._schedule).wrong_labels,
            content_mismatches=self._wrong,
        )

    def _do(self, step: object) -> None:
        if isinstance(step, Compute):
            for row in step.rows:
                self._row(row)
        elif isinstance(step, Clear):
            self._slots[step.slot] = _Held()
        elif isinstance(step, Copy):
            self._slots[step.destination] = self._copied(self._slots[step.source])
        elif isinstance(step, Commit):
            self._stored(self._checkpoints[step.checkpoint], self._slots[step.slot])
        elif isinstance(step, Free):
            self._slots.pop(step.slot, None)
        elif not isinstance(step, Evict):
            raise InternalError(f"a step that transformers can't do: {type(step).__name__}")

    def _row(self, row: Row) -> None:
        plan = self._schedule.requests[row.request]
        held = self._slots[row.source]
        if row.restored and row.scored:
            self._restored(row, held)
        state = self._live(held) if row.source != row.destination else held
        wanted, at = plan.prompt - 1, row.a
        for piece, taken in self._pieces(row, plan.run_of(row)):
            logits, state = self._forward(state, piece)
            self._tokens += len(piece)
            if row.scored:
                first = max(0, max(wanted, row.score_from or 0) - at)
                for request in (row.request, *row.shared):
                    self._logits[request].append(logits[first:])
            self._kernels[str(row.part)].add("forward" if len(piece) > 1 else "step")
            at += len(piece)
            for snapshot in taken:
                self._slots[snapshot.destination] = self._copied(state)
        self._slots[row.destination] = state

    def _pieces(self, row: Row, tokens: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[Snapshot]]]:
        """What goes through the model in one call each, and the snapshots that are due after it."""
        ends: dict[int, list[Snapshot]] = defaultdict(list)
        for snapshot in row.snapshots:
            ends[_covered(snapshot, len(tokens))].append(snapshot)
        each = row.kernel is Kernel.RECURRENT
        cuts = sorted({len(tokens), *ends, *(range(1, len(tokens)) if each else ())})
        for a, b in zip([0, *cuts], cuts, strict=False):
            if b > a:
                yield tokens[a:b], ends[b]

    def _forward(self, held: _Held, piece: tuple[int, ...]) -> tuple[Tensor, _Held]:
        """Logits [n, vocabulary] of a piece, float32 on the CPU, and what is held then.

        A repeat runs beside a batch mate with other tokens: another legitimate computation of the same.
        """
        module, name = self._loaded.module, self._loaded.cache_name
        tokens = torch.tensor([piece, *(piece[::-1] for _ in range(self._arm.repeat))], device=module.device)
        output = module(tokens, use_cache=True, **({} if held.cache is None else {name: held.cache}))
        logits: Tensor = output.logits[0].float().cpu()
        return logits, _Held((*held.pieces, piece), output[name])

    def _live(self, held: _Held) -> _Held:
        """A state to go on with that nobody else has: a copy, or in a split arm one that is made again."""
        if not self._split or not held.pieces:
            return self._copied(held)
        state = _Held()
        for piece in held.pieces:
            _, state = self._forward(state, piece)
        return state

    def _copied(self, held: _Held) -> _Held:
        return replace(held, cache=None if self._split or held.cache is None else cloned(held.cache))

    def _restored(self, row: Row, held: _Held) -> None:
        """A hit counts if what the slot holds is as long as the plan says, by our count and by the cache's own."""
        counted = says(held.cache) if held.cache is not None else None
        if held.tokens != row.a or counted not in (None, row.a):
            self._wrong += 1
            return
        self._hits += 1
        state, checkpoint = self._live(held) if self._split else held, self._checkpoints[str(row.restored)]
        seen, plan = shown(state.cache), self._schedule.requests[row.request]
        if seen is not None:
            where = plan.trace, plan.branch, plan.turn, checkpoint.position, str(checkpoint.written)
            self._restores.append(StateAt(*where, str(self._arm.pool), seen.layers, seen.temporal, seen.conv))

    def _stored(self, checkpoint: Checkpoint, held: _Held) -> None:
        """Label and provenance of a state as it is stored; split stores none."""
        if held.tokens != checkpoint.position:
            self._wrong += 1
        seen = None if self._split or held.cache is None else shown(held.cache)
        if seen is not None:
            pool = PoolDtype.BF16 if seen.dtype is torch.bfloat16 else PoolDtype.FP32
            share = np.array([[bf16_share(head, pool) for head in layer] for layer in seen.temporal])
            self._written.append(WrittenState(str(checkpoint.written), seen.layers, share, pool is PoolDtype.BF16))

    def _turn(self, number: int) -> ScoredTurn:
        plan = self._schedule.requests[number]
        restored = plan.restore is not None and self._arm.compiler is not Compiler.COLD
        logits = torch.cat(self._logits[number]).numpy()
        return ScoredTurn(
            plan.trace,
            plan.branch,
            plan.turn,
            plan.cluster,
            np.arange(plan.prompt, plan.end, dtype=np.int32),
            np.array(plan.tokens[plan.prompt : plan.end], np.int32),
            np.ascontiguousarray(logits[: plan.end - plan.prompt]),
            plan.start if restored else None,
        )


def _covered(snapshot: Snapshot, length: int) -> int:
    """Tokens of the row that a snapshot covers."""
    if snapshot.source is Source.FINAL:
        return length
    return snapshot.chunk if snapshot.source is Source.POSITION else snapshot.chunk * CHUNK
