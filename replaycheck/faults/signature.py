"""What a fault is expected to look like, and what a cell showed: the same five answers, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Conv", "Grid", "Needs", "Onset", "Signature", "State", "agrees"]


class Onset(StrEnum):
    """Where the first scored position lies whose logits have other bits than the reference's."""

    #: nowhere
    NONE = "none"
    #: in a turn that nothing was restored for, or before its restore
    BEFORE = "before any restore"
    #: the first scored position after the first wrong restore
    RESTORE = "at the restore"
    #: a later position or turn than that
    LATER = "later"


class Conv(StrEnum):
    """Convolution windows of restored states, byte for byte."""

    CLEAN = "clean"
    #: the first layer's differs, whose inputs depend on tokens alone
    SHIFTED = "first layer"
    #: only later layers' do, which see what earlier states did to their inputs
    FOLLOWS = "later layers"


class State(StrEnum):
    """Error of the first wrong recurrent state among those restored, relative to its size, in its first wrong layer."""

    CLEAN = "clean"
    #: up to 2^-6: a few roundings to 8 significant bits (2^-8 at most each)
    ROUNDING = "rounding"
    #: up to a quarter: a token more or less, or one part of a state
    PART = "part"
    #: more: another state
    OTHER = "other state"
    NOT_FINITE = "not finite"
    #: expected only: on either side of a quarter, by the text
    LARGE = "part or other state"


class Grid(StrEnum):
    """Which restored states are wrong, by whether they were written at a multiple of the chunk from their extend's start."""

    NONE = "none"
    ON = "on"
    OFF = "off"
    BOTH = "both"


class Needs(StrEnum):
    """What must happen for the fault to show at all."""

    HIT = "a hit"
    BATCH = "batch mates"
    FORK = "a fork"
    REJECTION = "a rejected draft"
    WINDOW = "a window"
    PREEMPTION = "a preemption"
    TIER = "another tier"
    REUSE = "a reused slot"
    RANKS = "several ranks"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Signature:
    """What a lab cell shows. ``needs`` isn't measured: the fault's ``silent_on`` proves it."""

    onset: Onset
    conv: Conv = Conv.CLEAN
    state: State = State.OTHER
    grid: Grid = Grid.BOTH
    needs: Needs = Needs.HIT

    def differs(self, seen: Signature) -> list[str]:
        """What was seen otherwise, in words."""
        parts = ("onset", "conv", "state", "grid")
        return [
            f"{part} {getattr(seen, part)}, expected {getattr(self, part)}"
            for part in parts
            if not agrees(str(getattr(self, part)), str(getattr(seen, part)))
        ]


def agrees(wanted: str, seen: str) -> bool:
    """Whether what was seen is what was expected, as words."""
    return seen == wanted or (wanted == State.LARGE and seen in (State.PART, State.OTHER))
