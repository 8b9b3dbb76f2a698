"""What ``replaycheck model verify --json`` prints: a subject against the golden log-probabilities of the shipped model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record
from .result import Verdict

__all__ = ["Verified", "VerifiedArm"]


class VerifiedArm(Record):
    """One arm. Differences are of the token's log-probability, nat; a ratio is in parts of one bf16 rounding."""

    arm: str
    positions: int
    missing: int = Field(description="positions whose token the subject said nothing about")
    hits: int = Field(description="proven; a warm arm without one is vacuous")
    mean: float | None
    largest: float | None
    worst_trace: float | None = Field(description="largest over traces of the root mean square ratio")
    flips: int = Field(description="positions with another top-1 token than the oracle's")
    flip_margin: float | None = Field(description="largest margin of the oracle among them, nat")
    verdict: Verdict


class Verified(Record):
    """What ``model verify --json`` prints."""

    schema_version: Literal[1] = 1
    subject: str
    model: str = Field(description="digest of the model that the golden values are of")
    bound: float = Field(description="the largest ratio that passes: √(2·L) roundings of L layers")
    verdict: Verdict
    arms: tuple[VerifiedArm, ...]
