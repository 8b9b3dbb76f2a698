"""The reference cache: it remembers every checkpoint and finds the longest one that is a prefix of a prompt."""

from __future__ import annotations

from replaycheck.schedule.checkpoints import positions
from replaycheck.schedule.steps import Checkpoint, Written
from replaycheck.schema.policy import CheckpointPolicy

from .flat import FlatCache
from .job import How, Job, Piece, Take


class ReferenceCache(FlatCache):
    """States by prefix, first come first kept."""

    def __init__(self, policy: CheckpointPolicy) -> None:
        super().__init__(policy.capacity)
        self._policy = policy

    def find(self, job: Job) -> Checkpoint | None:
        stored = (self.at(job, position) for position in range(job.goal - 1, 0, -1))
        return next((found for found in stored if found is not None), None)

    def takes(self, job: Job, piece: Piece) -> list[Take]:
        return [
            Take(job.checkpoint(position, written), How.SNAPSHOT if written.inside else How.COPY)
            for position, written in self._positions(job, piece)
            if self.at(job, position) is None
        ]

    def _positions(self, job: Job, piece: Piece) -> list[tuple[int, Written]]:
        if piece.decoding:
            over = self._policy.turn_end and piece.b == job.computed_end
            return [(piece.b, Written.DECODE)] if over else []
        found = positions(self._policy, piece.a, piece.b, job.end, whole=piece.b == job.prompt)
        return [(position, written) for position, written in found if position <= piece.b]
