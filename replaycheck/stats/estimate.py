"""A number with the evidence behind it, as every gate must record it: n, method and interval."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimated"]


@dataclass(frozen=True)
class Estimated:
    """``value`` is None where the data can't say; ``low`` or ``high`` is None where that side is open or unknown.

    The fields are those of schema.estimate.Estimate, so ``Estimate.of(found)`` writes it down; this package
    depends on numpy and scipy only, and records are pydantic's.
    """

    value: float | None
    n: int  # clusters (traces, unless several share text), or whatever ``method`` names
    method: str
    low: float | None = None
    high: float | None = None
