"""SGLang's two radix strategies, as read in its 0.5.23 wheel (docs/state-operations.md has files and lines).

``no_buffer`` copies the working slot at the exact end of each extend and gives it away when the request is over.
``extra_buffer`` stores on grids: one snapshot an extend, the last multiple of lcm(chunk, page) from its start or the
branching point; while decoding, each multiple of the track grid goes to the other one of two slots, and the last of them
is given to the tree when the request is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from replaycheck.schedule.speculation.integers import track_step
from replaycheck.schedule.steps import Checkpoint
from replaycheck.schema.policy import CHUNK, SglangPolicy

from .job import How, Job, Piece, PrefixCache, Stored, Take
from .radix import RadixTree


class RadixCache(PrefixCache):
    """What both strategies share: the tree, and a look-up that is cut back to the last node with a state."""

    def __init__(self, policy: SglangPolicy) -> None:
        super().__init__(policy.capacity)
        self._policy = policy
        self._tree = RadixTree(policy.page)
        self._covered: dict[int, int] = {}

    def find(self, job: Job) -> Checkpoint | None:
        match = self._tree.match(job.numbers, job.goal - 1)
        self._covered[job.index] = match.covered
        return match.state

    def insert(self, job: Job, checkpoint: Checkpoint) -> bool:
        return self._tree.insert(job.numbers, checkpoint)

    def forget(self, checkpoint: Checkpoint) -> None:
        self._tree.remove(checkpoint)

    def put(self, job: Job, take: Take) -> Stored | None:
        """A running request holds the last state that it stored, in place of the one that it continued.

        Storing what is stored already makes that the most recently used.
        """
        stored = super().put(job, take)
        if stored is not None:
            self.hold(job, take.checkpoint)
        elif there := self._tree.at(job.numbers, take.checkpoint.position):
            self.store.touch(there.name)
        return stored

    def cut(self, job: Job, limit: int) -> int:
        """Pieces but the last are whole pages."""
        end = super().cut(job, limit)
        pages = (end - job.position) // self._policy.page * self._policy.page
        return end if end == job.goal else job.position + pages


class NoBufferCache(RadixCache):
    """A state at the exact end of each extend and of the request."""

    def takes(self, job: Job, piece: Piece) -> list[Take]:
        over = piece.b == job.computed_end
        if piece.decoding and not over:
            return []
        how = How.DONATE if over else How.COPY
        return [Take(job.checkpoint(piece.b, piece.written(piece.b)), how)]


class ExtraBufferCache(RadixCache):
    """States on grids, through two slots that a request has beside its working slot."""

    def __init__(self, policy: SglangPolicy) -> None:
        super().__init__(policy)
        self._next: dict[int, int] = {}
        self._last: dict[int, Take] = {}

    def takes(self, job: Job, piece: Piece) -> list[Take]:
        position = self._decoded(piece) if piece.decoding else self._extended(job, piece)
        if position is None:
            return []
        buffer = self._next.get(job.index, 0)
        self._next[job.index] = 1 - buffer
        how = How.SNAPSHOT if position < piece.b else How.COPY
        return [Take(job.checkpoint(position, piece.written(position)), how, buffer)]

    def _decoded(self, piece: Piece) -> int | None:
        """A point of the track grid at the end, or one that the kept tokens of a window cross."""
        if piece.window is None:
            return piece.b if piece.b % self._policy.track_grid == 0 else None
        step = track_step(piece.a, piece.b - piece.a, self._policy.track_grid)
        return None if step is None else piece.a + step + 1

    def _extended(self, job: Job, piece: Piece) -> int | None:
        """The one snapshot of an extend: the branching point if it lies inside, else the last point of the grid."""
        track = prefill_track(self._policy.page, piece.a, piece.b - piece.a, self._branching(job))
        return track.depth if track else None

    def _branching(self, job: Job) -> int:
        """Where the tree wants a state: it has the tokens and, since the hit was cut back, no state for them."""
        grid = self._policy.checkpoint_grid
        return self._covered[job.index] // grid * grid

    def keep(self, job: Job, piece: Piece, takes: list[Take]) -> list[Stored]:
        """After an extend its snapshot is stored; while decoding only the latest one counts, at the end."""
        if not piece.decoding:
            return super().keep(job, piece, takes)
        if takes:
            self._last[job.index] = takes[-1]
        return []

    def suspend(self, job: Job) -> None:
        """The two slots are given back, and with them what they held."""
        super().suspend(job)
        self._last.pop(job.index, None)

    def finish(self, job: Job) -> list[Stored]:
        last = self._last.pop(job.index, None)
        stored = self.put(job, last) if last else None
        return [stored] if stored else []


@dataclass(frozen=True)
class Track:
    """depth: tokens in the snapshot. length: what the backend is told; one more than depth where that is inside."""

    depth: int
    length: int


def prefill_track(page: int, prefix: int, extend: int, branching: int | None = None) -> Track | None:
    """The snapshot of an extend (schedule_batch.py, ``_mamba_radix_cache_v2_req_prepare_for_extend``).

    The backend takes the final state if length − prefix is a multiple of the chunk, else the state at the start of chunk
    (length − prefix) // chunk. So a depth inside the extend is passed as one more, which the division drops again.

    Args:
        page: tokens of a page. prefix, extend: tokens in the state, and computed. branching: the point for which the
            tree wants a state; it replaces the last point if it lies inside the extend on a chunk.

    Returns:
        None for an extend shorter than the grid, lcm(chunk, page).
    """
    unit = max(CHUNK, page)
    grid = lcm(unit, page)
    if extend < grid:
        return None
    depth = prefix + extend // grid * grid
    last_chunk = prefix + extend // CHUNK * CHUNK
    length = prefix + extend if depth == last_chunk else depth + 1
    if branching is not None and prefix < branching < length and (branching - prefix) % unit == 0:
        return Track(branching, branching + 1)
    return Track(depth, length)
