"""Requests in flight at once against one at a time, both warm: which differences other batches explain, and which a state.

Other batches round otherwise, which is legitimate. How far that goes is what cold requests show beside others: F_num.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import Control, FloorKind, Measure
from replaycheck.schema.result import CellResult

from .evidence import Evidence

__all__ = ["FACTOR", "UNMEASURED", "by_batches", "measured", "said"]

FACTOR = 8.0
"""Beside others a position may move so many times as far as the furthest of F_num. Both are the largest of about as many
positions. Under a law with heavier tails than any that was measured, Student's t with 3 degrees of freedom, the one exceeds
k times the other with probability 1/(1 + k³), here 0.2 %. A state that isn't a request's own moves some of its positions by
nats; the noise of a batch was at most 4e-6 nat (fp32, CPU) to 0.1 (bf16, H200)."""

UNMEASURED = (
    "no cold run with several requests in flight was measured, so other batches, which are legitimate, can't be told from "
    "the state; leave --floor out, or measure it with --subject-option batch=N"
)


def measured(evidence: Evidence) -> bool:
    """Whether the noise of a batch is known."""
    return any(each.control is Control.BATCH for each in _measures(evidence))


def by_batches(evidence: Evidence, cell: CellResult) -> bool:
    """Whether other batches and cuts explain all that a cell beside others shows."""
    if cell.effect is not Effect.TOGETHER or cell.not_finite or cell.unsized_flips:
        return False
    noise = _noise(evidence)
    return noise > 0 and cell.abs_dlogp.get("max", 0.0) <= FACTOR * noise


def said(evidence: Evidence, cells: Sequence[CellResult]) -> str:
    """What requests in flight at once did, and how much of it is explained; nothing if they did nothing."""
    moved = max((cell.abs_dlogp.get("max", 0.0) for cell in cells if cell.effect is Effect.TOGETHER), default=0.0)
    if not moved:
        return ""
    explained = FACTOR * _noise(evidence)
    return f"; beside others a position moved by {moved:.3g} nat, and {FACTOR:g} × F_num explains {explained:.3g}"


def _noise(evidence: Evidence) -> float:
    """The furthest that a position moved under any control of F_num, nat."""
    return max((each.abs_dlogp.get("max", 0.0) for each in _measures(evidence)), default=0.0)


def _measures(evidence: Evidence) -> tuple[Measure, ...]:
    return evidence.floor.of(FloorKind.NUM) if evidence.floor else ()
