"""What ``probe state --json`` prints, one row an operation on states. No path or time in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

__all__ = ["StateRow", "StateTable", "StateVerdict"]

StateVerdict = Literal["exact", "broken", "can't"]


class StateRow(Record):
    """One operation: what is required of it, and whether it holds."""

    name: str
    part: str = Field(description="copies, pool, convolution, snapshots, forks, plans, prefix caches, …")
    required: str
    verdict: StateVerdict
    sentence: str = Field(description="what was looked at and found; if it can't be probed, why")
    example: str = Field(default="", description="the smallest example that breaks it")
    values: dict[str, float | int | str] = Field(default={}, description="counts and measured numbers")


class StateTable(Record):
    """All that it prints."""

    schema_version: Literal[1] = 1
    device: str
    recipe: str
    seed: int
    faults: tuple[str, ...]
    rows: tuple[StateRow, ...]

    @property
    def broken(self) -> tuple[StateRow, ...]:
        return tuple(row for row in self.rows if row.verdict == "broken")
