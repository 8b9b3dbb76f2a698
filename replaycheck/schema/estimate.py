"""A number and the evidence behind it, as every record that holds measured numbers has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .base import Record

if TYPE_CHECKING:
    from replaycheck.stats.estimate import Estimated

__all__ = ["Estimate"]


class Estimate(Record):
    """A number with the evidence behind it; ``low`` and ``high`` are null where no interval is meant."""

    value: float | None
    n: int
    method: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, found: Estimated) -> Estimate:
        """What :mod:`replaycheck.stats` found, as a record."""
        return cls(**asdict(found))
