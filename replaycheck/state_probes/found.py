"""What a check of ``probe state`` answers, and how it is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replaycheck.schema.state_table import StateRow, StateVerdict

if TYPE_CHECKING:
    from .subject import Subject

__all__ = ["Check", "Found", "broken", "cannot", "exact"]

Values = dict[str, float | int | str]


@dataclass(frozen=True)
class Found:
    """``example``: the smallest one that breaks it."""

    verdict: StateVerdict
    sentence: str
    example: str = ""
    values: Values = field(default_factory=dict)


def exact(sentence: str, **values: float | int | str) -> Found:
    """The check holds."""
    return Found("exact", sentence, values=values)


def broken(sentence: str, example: str, **values: float | int | str) -> Found:
    """The check doesn't hold; ``example``: the first place where."""
    return Found("broken", sentence, example, values)


def cannot(why: str) -> Found:
    """The check can't be made here, and why."""
    return Found("can't", why)


@dataclass(frozen=True)
class Check:
    """One row. ``look`` raises nothing on purpose: what an operation refuses is an answer, too."""

    name: str
    part: str
    required: str
    look: Callable[[Subject], Found]

    def row(self, subject: Subject) -> StateRow:
        found = self.look(subject)
        return StateRow(
            name=self.name,
            part=self.part,
            required=self.required,
            verdict=found.verdict,
            sentence=found.sentence,
            example=found.example,
            values=found.values,
        )
