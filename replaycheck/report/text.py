"""Numbers as a reader should see them: few digits, thousands parted, words for what isn't finite."""

from __future__ import annotations

from math import isfinite

__all__ = ["number", "plural", "share"]


def number(value: float | int | None) -> str:
    """Three significant digits, thousands separated, ``–`` for null, words for what isn't finite.

    >>> number(0.012345), number(48120), number(None), number(0.0), number(float("inf"))
    ('0.0123', '48,120', '–', '0', 'not finite')
    """
    if value is None:
        return "–"
    if not isfinite(value):
        return "not finite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}"


def share(part: int, whole: int) -> str:
    """A percentage that says 0 % and 100 % only when it is exactly that.

    >>> share(0, 10), share(1, 100000), share(99999, 100000), share(0, 0)
    ('0 %', '<0.1 %', '>99.9 %', '–')
    """
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.3g} %"


def plural(count: int, noun: str) -> str:
    """``1 trace``, ``6 traces``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
