"""What ``replaycheck bisect RUN --json`` prints: the failing cell, how small it became, and the command that shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

__all__ = ["Bisected"]


class Bisected(Record):
    """A failing cell that was made small."""

    schema_version: Literal[1] = 1
    cell: str = Field(description="the warm arm of the exact cell that the run failed in")
    check: str = Field(description="what failed, and fails in the small case, too")
    tokens_before: int
    tokens: int = Field(description="of all turns that are left")
    layers: tuple[int, ...] = Field(description="of the run's model that are left")
    heads: tuple[int, ...] = Field(description="of its recurrent layers that are left")
    tests: int = Field(description="cases that were run")
    seconds: float = Field(description="of CPU")
    trace: str
    suite: str
    command: str = Field(description="one line to be pasted")
    fails: bool = Field(description="the command was run, and a gate failed")
    code: str | None = Field(description="finding code of the small case; null: nothing is wrong with it")
    confidence: Literal["certain", "likely", "none"] | None
    sentence: str | None
    evidence: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
