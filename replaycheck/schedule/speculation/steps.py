"""The operations of a speculation plan. Slots are integers, 0 is null; places in scratch are numbered on their own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Memory(StrEnum):
    """Where a slot lies: in the pool, or in a window's scratch."""

    POOL = "pool"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Place:
    """A slot of temporal and convolution state."""

    memory: Memory
    slot: int


@dataclass(frozen=True)
class Verify:
    """Run a window: read a state, store or record.

    Attributes:
        row: place in the step's batch; records and scratch are addressed by it.
        request, window: which answer, and the index of its window.
        source: slot of the temporal state. conv_source, conv_offset: the convolution's history, from that column on.
        conv_destination: where the rolled-in window goes.
        states: where the state after each position goes; empty if none is stored.
        replayed: the live state is the source followed by the request's pending ring.
    """

    row: int
    request: int
    window: int
    source: int
    conv_source: int
    conv_offset: int
    conv_destination: Place
    states: tuple[Place, ...] = ()
    replayed: bool = False


@dataclass(frozen=True)
class CopyState:
    """Copy a temporal state, byte for byte."""

    source: Place
    destination: int


@dataclass(frozen=True)
class CopyConv:
    """Copy the convolution window from column ``offset`` on to the front of ``destination``."""

    source: Place
    offset: int
    destination: int


@dataclass(frozen=True)
class Rebuild:
    """Rebuild the state after ``length`` tokens of the row's window from its checkpoint and records."""

    row: int
    source: int
    length: int
    destination: int


@dataclass(frozen=True)
class Push:
    """Append the first ``length`` raw inputs of the row's window to its request's ring."""

    row: int
    request: int
    length: int


@dataclass(frozen=True)
class Fold:
    """Run the request's ring into its checkpoint and empty it."""

    request: int
    slot: int


@dataclass(frozen=True)
class Crop:
    """Attention's cache of the request holds ``tokens`` tokens from here on."""

    request: int
    tokens: int


@dataclass(frozen=True)
class Expect:
    """What the plan says: the state after ``tokens`` tokens of the request is in ``slot``, its convolution history in
    ``conv_slot`` from column ``conv_offset`` on. ``pending``: tokens of it that are still in the ring."""

    request: int
    tokens: int
    slot: int
    conv_slot: int
    conv_offset: int = 0
    pending: int = 0


Operation = Verify | CopyState | CopyConv | Rebuild | Push | Fold | Crop | Expect
