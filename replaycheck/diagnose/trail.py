"""A recorder beside the executor: what each step of a schedule read, computed and left behind, as digests by layer and head.

Two arms of one group are aligned by what a step is for: request, position in tokens and the name of a stored state. Slots
and rows of a pass, which legitimately differ, take no part. Whole states are kept only for the steps that are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.schedule.steps import Commit, Copy, Row, Schedule, Source, Step
from replaycheck.schema.arm import CHUNK
from replaycheck.subjects.lab.batch import Result
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.state import SequenceState

__all__ = ["Key", "Op", "Seen", "States", "Trail"]


class Op(StrEnum):
    """What was looked at."""

    #: the state that a row continues, as read
    LOAD = "load"
    #: the state after a row's tokens, before any cast
    COMPUTE = "compute"
    #: a state inside a row, before any cast
    SNAPSHOT = "snapshot"
    #: the state after a row's tokens, as stored
    STORE = "store"
    #: the logits after so many tokens
    LOGITS = "logits"
    #: a state under its name, as stored
    COMMIT = "commit"
    #: a copy of a named state, where it went
    COPY = "copy"


@dataclass(frozen=True)
class Key:
    """What a step is for. position: tokens in the state. name: of a stored or copied state. again: the n-th time."""

    op: Op
    request: int
    position: int
    scored: bool = True
    name: str = ""
    again: int = 0


@dataclass(frozen=True)
class States:
    """fp32 copies: temporal [L, H, V, K], conv [L, W − 1, D]."""

    temporal: NDArray[np.float32]
    conv: NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """One step. temporal: digests [L, H]; conv: digests [L]; of logits the one number is in ``conv``.

    row: that computed or read it. finite: no NaN or infinity. pages: tokens in the attention cache, of what a row reads.
    copied: of a copy, whether both slots have the same bytes after it. states: if they were asked for.
    """

    key: Key
    temporal: NDArray[np.uint32]
    conv: NDArray[np.uint32]
    finite: bool
    row: Row | None = None
    pages: int | None = None
    copied: bool | None = None
    states: States | None = None


class Trail:
    """The steps of one arm, in order; an :class:`~replaycheck.subjects.lab.observer.Observer`."""

    def __init__(self, schedule: Schedule, keep: Callable[[Key], bool] = lambda key: False) -> None:
        self.schedule = schedule
        self.steps: list[Seen] = []
        self._names = schedule.checkpoints()
        self._keep = keep
        self._times: Counter[Key] = Counter()

    def stepped(self, step: Step, pool: Pool) -> None:
        """Named states: as stored, and where they were copied to."""
        if isinstance(step, Commit | Copy):
            state = self._names[step.checkpoint]
            slot = step.slot if isinstance(step, Commit) else step.destination
            op = Op.COMMIT if isinstance(step, Commit) else Op.COPY
            self._add(Key(op, state.request, state.position, name=state.name), *pool.raw(slot))
            if isinstance(step, Copy):
                same = all(
                    _digest(_plain(a)) == _digest(_plain(b))
                    for a, b in zip(pool.raw(step.source), pool.raw(slot), strict=True)
                )
                self.steps[-1] = replace(self.steps[-1], copied=same)

    def loaded(self, row: Row, state: SequenceState) -> None:
        """What a row continues. A state that lacks its ring's tokens is held against none; nor is a discarded token's."""
        if self._discarded(row) or (row.lag and row.lag.before):
            return
        self._add(Key(Op.LOAD, row.request, row.a, row.scored), state.temporal, state.conv, row, len(state.pages))

    def taken(self, row: Row, result: Result, pool: Pool) -> None:
        """What a row computed and left."""
        if self._discarded(row):
            return
        end = self._end(row)
        self._add(Key(Op.COMPUTE, row.request, end, row.scored), result.final.temporal, result.final.conv, row)
        for snap, state in zip(row.snapshots, result.taps, strict=True):
            if snap.source is not Source.FINAL:
                inside = snap.chunk if snap.source is Source.POSITION else snap.chunk * CHUNK
                key = Key(Op.SNAPSHOT, row.request, row.a + inside, row.scored)
                self._add(key, state.temporal, state.conv, row)
        if row.lag is None or row.lag.after == 0:
            self._add(Key(Op.STORE, row.request, end, row.scored), *pool.raw(row.destination), row)
        for number, logits in enumerate(result.logits):
            self._add(Key(Op.LOGITS, row.request, end - len(result.logits) + 1 + number, row.scored), None, logits, row)

    def _discarded(self, row: Row) -> bool:
        """Whether a pipeline ran the row past its answer's end; no reference does."""
        return row.score_from == row.b > self.schedule.requests[row.request].computed_end

    def _end(self, row: Row) -> int:
        """Tokens in the state that a row is meant to leave: those of a window that are kept."""
        if row.window is None:
            return row.b
        return row.a + self.schedule.requests[row.request].windows[row.window].kept

    def _add(
        self, key: Key, temporal: Tensor | None, conv: Tensor, row: Row | None = None, pages: int | None = None
    ) -> None:
        numbered = Key(key.op, key.request, key.position, key.scored, key.name, self._times[key])
        self._times[key] += 1
        c = _plain(conv)
        t = _plain(temporal) if temporal is not None else np.empty((0, 0, 0, 0), np.float32)
        digests = np.array([[_digest(head) for head in layer] for layer in t], np.uint32).reshape(t.shape[:2])
        windows = np.array([_digest(c)] if key.op is Op.LOGITS else [_digest(layer) for layer in c], np.uint32)
        finite = bool(np.isfinite(t).all() and np.isfinite(c).all())
        states = States(t.copy(), c.copy()) if self._keep(numbered) else None
        self.steps.append(Seen(numbered, digests, windows, finite, row, pages, states=states))


def _plain(values: Tensor) -> NDArray[np.float32]:
    """fp32 on the CPU, bit for bit what the value is."""
    return np.asarray(values.detach().to("cpu", torch.float32).numpy())


def _digest(values: NDArray[np.float32]) -> int:
    """crc32 of the bytes: two states with equal ones are taken for equal. One of 2^32 pairs is so by chance."""
    return crc32(np.ascontiguousarray(values).view(np.uint8).reshape(-1).data)
