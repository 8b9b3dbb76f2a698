"""A number and the evidence behind it, as every record that holds measured numbers has it."""

from __future__ import annotations

from .base import Record

__all__ = ["Estimate"]


class Estimate(Record):
    """A number with the evidence behind it; ``low`` and ``high`` are null where no interval is meant."""

    value: float | None
    n: int
    method: str
    low: float | None = None
    high: float | None = None
