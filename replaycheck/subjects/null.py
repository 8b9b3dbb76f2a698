"""The null subject: it computes nothing, and what it says depends on token and position alone.

So every arm agrees in every bit, every planned hit is proven, and a run measures what replaycheck itself costs: compiling,
comparing, storing, summing up. Its states lie in a pool as real ones do: one cast to the pool's dtype, and no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replaycheck.audit.provenance import bf16_share
from replaycheck.compare.casts import cast
from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt, WrittenState
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Checkpoint, Commit, Compute, RequestPlan, Row, Schedule
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.subjects.protocol import Description

__all__ = ["NullSubject", "factory"]

VOCABULARY = 144
"""Logits of a position: as many as the vocabulary of the shipped traces has ids."""

ROWS, STATES = 1024, 64
"""Different rows of logits and states. A hash picks one; drawing each anew would take longer than all the rest."""

LAYERS, HEADS, SIZE = (0, 1), 1, 8
"""64 elements a state, the fewest whose provenance an audit judges."""

_TOKEN, _POSITION = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd multipliers with bits all over (2^64 over the golden ratio; a prime of xxHash): neighbours land far apart."""


class NullSubject:
    """A subject without a model (see :mod:`replaycheck.subjects.protocol`)."""

    name = "null"
    vocabulary = VOCABULARY
    #: It has no weights; another table of rows would be another subject.
    digest = f"null-{ROWS}-{STATES}"

    def __init__(self) -> None:
        draws = np.random.default_rng(0)
        self._logits = draws.normal(size=(ROWS, VOCABULARY)).astype(np.float32)
        live = draws.normal(size=(STATES, len(LAYERS), HEADS, SIZE, SIZE)).astype(np.float32)
        self._stored = {pool: cast(live, pool) for pool in PoolDtype}
        self._shares = {pool: _shares(self._stored[pool], pool) for pool in PoolDtype}
        self._conv = draws.integers(0, 256, (STATES, len(LAYERS), 6)).astype(np.uint8)

    def describe(self) -> Description:
        """It runs whatever a schedule says, as the lab does."""
        return Description(
            self.name,
            self.digest,
            self.vocabulary,
            states=True,
            compilers=frozenset(Compiler),
            deterministic=True,
            parallel=True,
        )

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """A recording of each schedule."""
        return [self._recording(schedule) for schedule in schedules]

    def _recording(self, schedule: Schedule) -> ArmRecording:
        warm, checkpoints = schedule.arm.compiler is Compiler.WARM, schedule.checkpoints()
        kernels: dict[str, frozenset[str]] = defaultdict(lambda: frozenset({"null"}))
        restores, written, tokens = [], [], 0
        for step in schedule.steps:
            if isinstance(step, Commit) and warm:
                written.append(self._written(schedule, checkpoints[step.checkpoint]))
            for row in step.rows if isinstance(step, Compute) else ():
                tokens += row.b - row.a
                kernels[str(row.part)]
                if row.restored and row.scored:
                    restores.append(self._restored(schedule, row, checkpoints[row.restored]))
        return ArmRecording(
            arm=schedule.arm.name,
            turns=tuple(self._turn(schedule, plan) for plan in schedule.requests),
            restores=tuple(restores),
            written=tuple(written),
            kernels=dict(kernels),
            expected_hits=schedule.expected_hits,
            proven_hits=len(restores) if warm else 0,
            computed_tokens=tokens,
            label_mismatches=simulate(schedule).wrong_labels,
        )

    def _turn(self, schedule: Schedule, plan: RequestPlan) -> ScoredTurn:
        positions = np.arange(plan.prompt, plan.end, dtype=np.int32)
        tokens = np.array(plan.tokens[plan.prompt : plan.end], np.int32)
        restored = plan.restore is not None and schedule.arm.compiler is not Compiler.COLD
        return ScoredTurn(
            plan.trace,
            plan.branch,
            plan.turn,
            plan.cluster,
            positions,
            tokens,
            self._logits[_pick(tokens, positions, ROWS)],
            plan.start if restored else None,
        )

    def _restored(self, schedule: Schedule, row: Row, checkpoint: Checkpoint) -> StateAt:
        plan, at = schedule.requests[row.request], self._state(schedule, checkpoint)
        return StateAt(
            plan.trace,
            plan.branch,
            plan.turn,
            checkpoint.position,
            str(checkpoint.written),
            str(schedule.arm.pool),
            LAYERS,
            self._stored[schedule.arm.pool][at],
            self._conv[at],
        )

    def _written(self, schedule: Schedule, checkpoint: Checkpoint) -> WrittenState:
        pool = schedule.arm.pool
        share = self._shares[pool][self._state(schedule, checkpoint)]
        return WrittenState(str(checkpoint.written), LAYERS, share, pool is PoolDtype.BF16)

    @staticmethod
    def _state(schedule: Schedule, checkpoint: Checkpoint) -> int:
        """Which state is live after the checkpoint's tokens."""
        last = schedule.requests[checkpoint.request].tokens[checkpoint.position - 1]
        return int(_pick(np.array([last]), np.array([checkpoint.position]), STATES)[0])


def _pick(tokens: NDArray[np.integer], positions: NDArray[np.integer], of: int) -> NDArray[np.intp]:
    """One of ``of`` rows, a power of two, for each token at its position."""
    mixed = tokens.astype(np.uint64) * _TOKEN + positions.astype(np.uint64) * _POSITION
    return (mixed >> np.uint64(65 - of.bit_length())).astype(np.intp)


def _shares(stored: NDArray[np.float32], pool: PoolDtype) -> NDArray[np.float64]:
    """[states, layers, heads] share of elements that fit bf16."""
    return np.array([[[bf16_share(head, pool) for head in layer] for layer in state] for state in stored])


def factory() -> NullSubject:
    """What ``--subject null`` calls."""
    return NullSubject()
