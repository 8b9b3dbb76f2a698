"""``model verify`` in words: one line an arm, then the verdict."""

from __future__ import annotations

from replaycheck.schema.golden import Verified, VerifiedArm
from replaycheck.text import aligned

from .text import number

__all__ = ["verify_text"]

HEAD = ("arm", "positions", "hits", "mean", "largest", "ratio", "flips", "verdict")


def verify_text(found: Verified) -> str:
    """Differences from the float64 oracle in nat; the ratio is in parts of one bf16 rounding."""
    rows = [HEAD, *map(_row, found.arms)]
    lines = aligned(rows)
    missing = sum(arm.missing for arm in found.arms)
    more = [f"{missing} tokens weren't among those that the engine listed"] if missing else []
    worst = "worst trace's root mean square in parts of one bf16 rounding of the log-probabilities"
    return "\n".join(
        [
            f"{found.verdict.upper()}  {found.subject} against the float64 oracle",
            "",
            *lines,
            f"mean, largest: |Δ log p|, nat. ratio: {worst}; up to {found.bound:g} passes.",
            *more,
        ]
    )


def _row(arm: VerifiedArm) -> tuple[str, ...]:
    sizes = ["–" if value is None else number(value) for value in (arm.mean, arm.largest, arm.worst_trace)]
    return arm.arm, f"{arm.positions:,}", f"{arm.hits:,}", *sizes, f"{arm.flips:,}", arm.verdict
