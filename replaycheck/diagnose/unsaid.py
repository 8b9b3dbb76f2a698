"""RC906 to RC909: what a subject didn't say, or said that isn't a number, and the state dtype that it was asked for."""

from __future__ import annotations

from collections.abc import Callable

from replaycheck.schema.gaps import Gaps, Where
from replaycheck.schema.result import Finding

from .evidence import Evidence

__all__ = ["another_dtype", "left_out", "not_a_number", "other_tokens"]


def another_dtype(evidence: Evidence) -> Finding | None:
    """RC906: the dtype of the states in use isn't the one that was asked for."""
    dtype = evidence.state_dtype
    if dtype is None or not dtype.another:
        return None
    sentence = f"{dtype.asked} was asked for, and {dtype.in_use} is in use: nothing of this run is about {dtype.asked}."
    return evidence.finding("RC906", sentence, [f"asked for: {dtype.asked}", f"in use: {dtype.in_use}"])


def not_a_number(evidence: Evidence) -> Finding | None:
    """RC907: NaN stands where a log-probability should."""
    return _gap(evidence, "RC907", lambda gaps: gaps.nan, lambda gaps: gaps.first_nan)


def left_out(evidence: Evidence) -> Finding | None:
    """RC908: nothing was said about the token of a position."""
    return _gap(evidence, "RC908", lambda gaps: gaps.missing, lambda gaps: gaps.first_missing)


def _gap(
    evidence: Evidence, code: str, count: Callable[[Gaps], int], first: Callable[[Gaps], Where | None]
) -> Finding | None:
    """Positions of one kind, with the first of each arm."""
    mine = [(arm, arm.gaps) for arm in evidence.arms if arm.gaps is not None and count(arm.gaps)]
    if not mine:
        return None
    arm, gaps = mine[0]
    total, positions = sum(count(each) for _, each in mine), sum(each.positions for each, _ in mine)
    place = first(gaps)
    sentence = f"{total:,} of {positions:,} positions of {_arms(len(mine))}, first in the arm {arm.name} at {place}."
    lines = [
        f"{arm.name}: {count(gaps):,} of {arm.positions:,} positions, first at {first(gaps)}" for arm, gaps in mine
    ]
    return evidence.finding(code, sentence, lines, place)


def _arms(count: int) -> str:
    return "1 arm" if count == 1 else f"{count} arms"


def other_tokens(evidence: Evidence) -> Finding | None:
    """RC909: arms say another most likely token where no log-probability tells by how much."""
    mine = [cell for cell in evidence.cells if cell.unsized_flips]
    if not mine:
        return None
    flips, tokens = sum(cell.unsized_flips for cell in mine), sum(cell.unsized for cell in mine)
    first = mine[0].first_unsized_flip
    sentence = f"{flips:,} of {tokens:,} tokens that were compared without a log-probability, first at {first}."
    lines = [
        f"{cell.name}: {cell.unsized_flips:,} of {cell.unsized:,}, first at {cell.first_unsized_flip}" for cell in mine
    ]
    return evidence.finding("RC909", sentence, lines, first)
