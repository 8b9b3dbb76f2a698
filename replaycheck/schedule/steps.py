"""The steps of a schedule. Each has a logical part, which every subject gets, and a plan, which only the lab gets.

Positions count tokens from the path's bos = 0. A row computes tokens a … b − 1 of its request's path; ``state at n`` is the
state after n tokens. Plans hold slots; slot 0 is the null slot, never read and never written.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum

from replaycheck.schema.arm import Arm, Experiment, Kernel, Rollback

from .speculation.windows import Window

NULL_SLOT = 0
PAD = 0
"""The token id in padding columns. Any id would do: nothing may depend on it."""


class RowKind(StrEnum):
    """How a row is computed: many tokens of a prompt, one of an answer, or a window of drafts."""

    PREFILL = "prefill"
    DECODE = "decode"
    VERIFY = "verify"


class Part(StrEnum):
    """Which part of a turn a row computes, so that the kernels of two arms can be compared part by part."""

    HISTORY = "history"
    TAIL = "tail"
    ANSWER = "answer"


class Source(StrEnum):
    """Which tensor of the kernel a snapshot takes (values as in the kernel contract)."""

    ACCUMULATOR = "accumulator"
    CHUNK_STATE = "chunk-state"
    FINAL = "final"
    #: of a verify row: the state after so many of its tokens
    POSITION = "position"


class CopyReason(StrEnum):
    """What a copy between slots is for."""

    RESTORE = "restore"
    FORK = "fork"
    ROLLBACK = "rollback"
    TIER = "tier"


class Written(StrEnum):
    """How a checkpoint came to be."""

    #: a state inside an extend that doesn't end on the chunk grid
    INTERIOR = "interior"
    #: a state inside an extend that ends on it
    INTERIOR_GRID = "interior-grid"
    #: the state at the end of an extend that doesn't end on the grid
    FINAL = "final"
    #: the state at the end of one that does
    FINAL_GRID = "final-grid"
    #: the state after decode steps
    DECODE = "decode"

    @property
    def inside(self) -> bool:
        """Whether the state lies inside its extend."""
        return self in (Written.INTERIOR, Written.INTERIOR_GRID)


@dataclass(frozen=True)
class Checkpoint:
    """A stored state, by name. ``name`` is unique in a schedule."""

    name: str
    request: int
    position: int
    written: Written


@dataclass(frozen=True)
class Snapshot:
    """Plan: store the state at the start of chunk ``chunk`` of the row (or its final state) in slot ``destination``.

    With source position ``chunk`` counts tokens: those of the row before the state. ``conv_end`` is the number of the row's
    tokens whose inputs the conv state ends with.
    """

    chunk: int
    source: Source
    destination: int
    conv_end: int


@dataclass(frozen=True)
class Kept:
    """Plan of a rollback: the number of a verify row's tokens after which each part of the state is taken.

    Attributes:
        temporal: the recurrent state. conv: the inputs of the short convolution. pages: the attention cache.
    """

    temporal: int
    conv: int
    pages: int

    @classmethod
    def all(cls, tokens: int) -> Kept:
        return cls(tokens, tokens, tokens)


@dataclass(frozen=True)
class Columns:
    """Plan of a padded row: ``left`` columns of padding, its tokens, ``right`` columns of padding.

    The mask lets columns first … last − 1 through to the convolution, the recurrent state, the attention cache and the
    count of positions; of a right plan these are the tokens.
    """

    left: int
    right: int
    first: int
    last: int


@dataclass(frozen=True)
class Lag:
    """Plan of a ring: tokens that a state lacks and that are in its ring alone, before a window and after it.

    ``after`` = 0: the ring is folded into the state. A ring belongs to its slot: a copy of the slot leaves it behind.
    """

    before: int
    after: int


@dataclass(frozen=True)
class Row:
    """Compute tokens a … b − 1 of a request's path.

    Attributes:
        request: index into the schedule's requests.
        scored: the row's logits are recorded for positions ≥ the prompt's length.
        score_from: the first token whose logits are recorded, if those before were recorded already: the row computes
            tokens of an answer again, after a preemption.
        shared: further requests whose answers begin with this row's tokens; its logits are recorded for them, too.
        restored: name of the checkpoint that the row continues from, if it does.
        source, destination: slots (plan).
        window, accepted: of a verify row: index into the request's windows, and drafts that are accepted. The row runs
            the window's first token and b − a − 1 of its drafts; logits count as far as drafts are accepted.
        kept: of a verify row: what the destination gets (plan).
        columns: of a padded row: where its tokens lie (plan).
        lag: of a window whose accepted tokens may stay in a ring (plan); a split arm rounds its state where it is folded.
    """

    request: int
    a: int
    b: int
    kind: RowKind
    part: Part
    kernel: Kernel
    scored: bool
    source: int
    destination: int
    snapshots: tuple[Snapshot, ...] = ()
    restored: str | None = None
    window: int | None = None
    accepted: int | None = None
    kept: Kept | None = None
    score_from: int | None = None
    shared: tuple[int, ...] = ()
    columns: Columns | None = None
    lag: Lag | None = None


@dataclass(frozen=True)
class Compute:
    """One forward pass: rows in order, then ``padding`` rows that are nobody's, as wide as the others."""

    rows: tuple[Row, ...]
    padding: int = 0


@dataclass(frozen=True)
class Clear:
    """Set a slot to the state of no tokens."""

    slot: int


@dataclass(frozen=True)
class Copy:
    """Copy a whole slot, byte for byte. ``checkpoint`` names what is meant to be copied; the slots are the plan.

    A restore reads a stored state, a fork a live one, a tier copy goes to the host or comes from there.
    """

    reason: CopyReason
    checkpoint: str
    source: int
    destination: int


@dataclass(frozen=True)
class Commit:
    """The slot now holds this checkpoint; it can be hit from here on."""

    checkpoint: str
    slot: int


@dataclass(frozen=True)
class Evict:
    """The checkpoint is gone and its slot free."""

    checkpoint: str
    slot: int


@dataclass(frozen=True)
class Free:
    """A slot is given back: nothing reads it until something was written there."""

    slot: int


Step = Compute | Clear | Copy | Commit | Evict | Free


@dataclass(frozen=True)
class RequestPlan:
    """The logical plan of one request, shared by all compilers.

    Attributes:
        trace, branch, turn, cluster: where its positions are booked.
        tokens: token ids of the whole path (forced run).
        numbers: identities of its prefixes, by tokens: equal numbers in a group, equal prefixes whatever the answers are.
        prompt: tokens up to and including the answer's role token; the answer is tokens[prompt:end].
        restore: the checkpoint that a warm run restores, or None.
        creates: checkpoints that it stores, by rising position.
        copies: states that are copied whole without being stored, by name: forks, swaps, moves to another block, and
            snapshots that a later one replaced.
        windows: the speculation windows of the answer, in order, as far as they are run.
    """

    trace: str
    branch: int
    turn: int
    cluster: str
    tokens: tuple[int, ...]
    prompt: int
    end: int
    restore: Checkpoint | None
    creates: tuple[Checkpoint, ...]
    copies: tuple[Checkpoint, ...] = ()
    windows: tuple[Window, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def start(self) -> int:
        """Tokens that the restored state covers."""
        return self.restore.position if self.restore else 0

    @property
    def computed_end(self) -> int:
        """Tokens that are ever run: the last token of an answer is produced and never an input."""
        return self.end - 1

    def number(self, window: Window) -> int:
        """The index of one of its windows."""
        return bisect_left(self.windows, window.offset, key=lambda each: each.offset)

    def verified(self, request: int, window: int) -> Checkpoint:
        """A name for the state that a window leaves, of this request's number."""
        end = self.prompt + self.windows[window].offset + self.windows[window].kept
        return Checkpoint(f"r{request}@{end}.kept", request, end, Written.DECODE)

    def run_of(self, row: Row) -> tuple[int, ...]:
        """The tokens that a row runs: those of the path, or the first of a window and its drafts."""
        if row.window is None:
            return self.tokens[row.a : row.b]
        return (self.tokens[row.a], *self.windows[row.window].drafts)[: row.b - row.a]

    def seen_of(self, row: Row) -> tuple[int, ...]:
        """The tokens that reach a row's state: those that it runs, and padding if the mask lets it through."""
        run, columns = self.run_of(row), row.columns
        if columns is None:
            return run
        return (*(PAD,) * columns.left, *run, *(PAD,) * columns.right)[columns.first : columns.last]


@dataclass(frozen=True)
class Schedule:
    """A group compiled for one arm. experiment: whose answers its paths hold; the steps are the same."""

    arm: Arm
    group: str
    requests: tuple[RequestPlan, ...]
    steps: tuple[Step, ...]
    slots: int
    expected_hits: int
    experiment: Experiment = "forced"

    def begun_with(self, bos: int) -> Schedule:
        """The same with another first token of every path: that of a model with another vocabulary."""
        plans = tuple(replace(plan, tokens=(bos, *plan.tokens[1:])) for plan in self.requests)
        return replace(self, requests=plans)

    def checkpoints(self) -> dict[str, Checkpoint]:
        """Checkpoints by name, and the states that are copied without being stored."""
        names = {c.name: c for request in self.requests for c in (*request.creates, *request.copies)}
        if self.arm.rollback is Rollback.COPY:
            for index, request in enumerate(self.requests):
                names |= {c.name: c for c in (request.verified(index, w) for w in range(len(request.windows)))}
        return names
