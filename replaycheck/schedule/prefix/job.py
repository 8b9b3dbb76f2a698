"""A request under way, what is done to its state, and the interface of a prefix cache that decides it.

A cache sees a request through its life: ``admit`` finds the state that it continues, ``cut`` says where a prefill piece
ends, ``takes`` which states a piece or a decode step leaves behind, ``keep`` which of these are stored, ``finish`` what is
stored at the end. Everything it returns is data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from replaycheck.schedule.speculation.windows import Window
from replaycheck.schedule.steps import Checkpoint, Part, Written
from replaycheck.schema.arm import CHUNK

from .store import StateStore


class How(StrEnum):
    """How a state gets into the slot where it is stored."""

    #: the kernel writes it there during the call
    SNAPSHOT = "snapshot"
    #: the working slot is copied after the call
    COPY = "copy"
    #: the working slot itself is given away; the request continues in a copy
    DONATE = "donate"


@dataclass(frozen=True)
class Take:
    """A state that a call leaves behind. ``buffer``: the request's own slot of that number, else a fresh one."""

    checkpoint: Checkpoint
    how: How
    buffer: int | None = None


@dataclass(frozen=True)
class Stored:
    """A taken state is stored: it can be hit from here on. ``evicts`` leaves before."""

    take: Take
    evicts: Checkpoint | None = None


@dataclass
class Job:
    """A request under way.

    Attributes:
        index: of the request.
        numbers: identities of the prefixes of its path.
        prompt, end: as in RequestPlan.
        position: tokens in its state.
        goal: tokens that are known and are prefilled: the prompt, or after a recomputation one more than were computed.
        names: how often a position was given a name.
    """

    index: int
    numbers: tuple[int, ...]
    prompt: int
    end: int
    position: int = 0
    goal: int = 0
    names: dict[str, int] = field(default_factory=dict)

    @property
    def computed_end(self) -> int:
        return self.end - 1

    def checkpoint(self, position: int, written: Written) -> Checkpoint:
        """A new name for a state of this request."""
        name = f"r{self.index}@{position}"
        self.names[name] = self.names.get(name, 0) + 1
        return Checkpoint(
            name if self.names[name] == 1 else f"{name}.{self.names[name] - 1}", self.index, position, written
        )


@dataclass(frozen=True)
class Piece:
    """Tokens a … b − 1 of a job in one call. ``window``: of an answer, the window whose kept tokens they are."""

    a: int
    b: int
    part: Part
    window: Window | None = None

    @property
    def size(self) -> int:
        """Tokens that the call runs, rejected drafts too."""
        return self.window.length if self.window else self.b - self.a

    @property
    def decoding(self) -> bool:
        return self.part is Part.ANSWER

    def written(self, position: int) -> Written:
        """How a state of this piece came to be."""
        if self.decoding:
            return Written.DECODE
        grid = (self.b - self.a) % CHUNK == 0
        if position < self.b:
            return Written.INTERIOR_GRID if grid else Written.INTERIOR
        return Written.FINAL_GRID if grid else Written.FINAL


class PrefixCache(ABC):
    """What every cache does in the same way; a policy fills in the rest."""

    #: tokens of a block: the running state moves to another slot at each block end; None: it stays where it is
    block: int | None = None

    def __init__(self, capacity: int | None) -> None:
        self.store = StateStore(capacity)
        self._held: dict[int, str] = {}

    @abstractmethod
    def find(self, job: Job) -> Checkpoint | None:
        """The stored state that a job would continue: of at most ``goal`` − 1 tokens, since one must be computed."""

    @abstractmethod
    def takes(self, job: Job, piece: Piece) -> list[Take]:
        """States that a call leaves behind, by rising position."""

    @abstractmethod
    def insert(self, job: Job, checkpoint: Checkpoint) -> bool:
        """Index a state that is about to be stored. False if that prefix has one already, which keeps the older state."""

    @abstractmethod
    def forget(self, checkpoint: Checkpoint) -> None:
        """Remove a state from the index."""

    def cut(self, job: Job, limit: int) -> int:
        """Where the next prefill piece ends, given so many tokens; ``job.position`` if it has to wait."""
        return min(job.position + limit, job.goal)

    def defers(self, job: Job, pending: Iterable[tuple[Job, Take]]) -> bool:
        """Whether a job waits a step, since what it would hit is written in this one."""
        return False

    def admit(self, job: Job) -> Checkpoint | None:
        """Find and hold the state that a job continues."""
        found = self.find(job)
        if found is not None:
            self.store.touch(found.name)
            self.hold(job, found)
        return found

    def keep(self, job: Job, piece: Piece, takes: list[Take]) -> list[Stored]:
        """Which of the taken states are stored after the call."""
        return [stored for take in takes if (stored := self.put(job, take))]

    def finish(self, job: Job) -> list[Stored]:
        """What is stored when a job is over."""
        return []

    def hold(self, job: Job, checkpoint: Checkpoint) -> None:
        """The job reads this state from now on, and no other."""
        self.release(job)
        self.store.hold(checkpoint.name)
        self._held[job.index] = checkpoint.name

    def release(self, job: Job) -> None:
        """The job reads no stored state any more."""
        if job.index in self._held:
            self.store.release(self._held.pop(job.index))

    def suspend(self, job: Job) -> None:
        """The job is taken off the engine."""
        self.release(job)

    def put(self, job: Job, take: Take) -> Stored | None:
        """Store a state: make room, index it. None if the prefix has one or nothing can leave."""
        victim = self.store.victim() if self.store.full else None
        if self.store.full and victim is None:
            return None
        if not self.insert(job, take.checkpoint):
            return None
        if victim is not None:
            self.drop(victim)
        self.store.add(take.checkpoint)
        return Stored(take, victim)

    def drop(self, checkpoint: Checkpoint) -> None:
        """A state is gone: evicted, or its load was aborted."""
        self.store.remove(checkpoint.name)
        self.forget(checkpoint)
