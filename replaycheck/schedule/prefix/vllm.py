"""vLLM's state blocks, as read in its 0.33.0 wheel (docs/state-operations.md has files and lines).

``align``: block p holds the state after exactly (p + 1)·block tokens, or nothing. Prefill is cut where a state has to be
kept, so that every stored state is the final one of a call; at a block end the running state goes on in a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from replaycheck.schedule.steps import Checkpoint
from replaycheck.schema.policy import VllmPolicy

from .flat import FlatCache
from .job import How, Job, Piece, Stored, Take


def last_below(tokens: int, unit: int) -> int:
    """The last multiple of ``unit`` that leaves one of ``tokens`` to compute."""
    return (tokens - 1) // unit * unit


class NoCache(FlatCache):
    """``none``: one block a request, nothing is ever stored."""

    def find(self, job: Job) -> Checkpoint | None:
        return None

    def takes(self, job: Job, piece: Piece) -> list[Take]:
        return []


class AlignCache(FlatCache):
    """``align``: states at block ends, and at the prompt's last hash block if partial tails are on. A window that runs over
    a block end leaves the state there in the block that it completes."""

    def __init__(self, policy: VllmPolicy) -> None:
        super().__init__(policy.capacity)
        self.block = policy.block
        self._policy = policy
        self._block = policy.block
        self._unit = policy.tail or policy.block

    def find(self, job: Job) -> Checkpoint | None:
        """From right to left; one block is enough for a hit."""
        ends = range(last_below(job.goal, self._unit), 0, -self._unit)
        return next((found for end in ends if (found := self.at(job, end))), None)

    def defers(self, job: Job, pending: Iterable[tuple[Job, Take]]) -> bool:
        """A block that is being written in this step can't be read in it."""
        found = self.find(job)
        here = found.position if found else 0
        return any(
            here < take.checkpoint.position < job.goal
            and other.numbers[take.checkpoint.position] == job.numbers[take.checkpoint.position]
            for other, take in pending
        )

    def cut(self, job: Job, limit: int) -> int:
        """The end of the next piece (scheduler.py, ``_mamba_block_aligned_split``), without draft blocks and junctions."""
        start, goal = job.position, job.goal
        prefill_end = max(job.prompt, goal - 1)
        end = min(start + limit, goal)
        if end < prefill_end:
            aligned = end // self._block * self._block
            if aligned > start or self._block <= (self._policy.budget or self._block):
                end = max(aligned, start)
        stops = self._stops(job)
        if start % self._block:
            stops.append((start // self._block + 1) * self._block)
        return min([end, *(stop for stop in stops if stop > start)])

    def _stops(self, job: Job) -> list[int]:
        """The last block end that leaves a token to compute, and the prompt's last hash block if that comes later."""
        block_end = last_below(job.goal, self._block)
        return [block_end, max(block_end, last_below(job.prompt, self._unit))]

    def takes(self, job: Job, piece: Piece) -> list[Take]:
        end = piece.b
        inside = end // self._block * self._block
        if end % self._block == 0:
            kept, how = self._retained(job, end), How.DONATE
        elif piece.window is not None and piece.a < inside:
            end, kept, how = inside, self._retained(job, inside), How.SNAPSHOT
        else:
            kept, how = self._policy.tail is not None and end == last_below(job.prompt, self._policy.tail), How.COPY
        return [Take(job.checkpoint(end, piece.written(end)), how)] if kept else []

    def _retained(self, job: Job, end: int) -> bool:
        """Sparse retention (``reachable_block_mask``): what a resent prompt reaches, and one state a segment."""
        reached = last_below(job.prompt, self._unit) // self._block * self._block
        retain = self._policy.retain
        return retain == "all" or end == reached or (isinstance(retain, int) and end % retain == 0)

    def put(self, job: Job, take: Take) -> Stored | None:
        """The request reads its last full block until it has gone on in the next one."""
        stored = super().put(job, take)
        if stored is not None and take.how is How.DONATE:
            self.hold(job, take.checkpoint)
        return stored
