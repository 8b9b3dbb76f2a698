"""What is kept of a list that is too long for a page: the worst, and those nearest the median, so that the typical case is
there too. What is left out is counted, never silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["BUDGETS", "CAP", "Budget", "Kept", "keep"]

CAP = 5_000_000
"""Bytes of a report at most: browsers opened 3 MB of inline tables with a pause, and 119 MB not at all."""

T = TypeVar("T")


@dataclass(frozen=True)
class Budget:
    """Rows of long tables: ``worst`` and ``typical`` ones; ``rows`` of the tables that have no order of badness.

    ``data``: characters of the packed result.json at most; without it the page only names the file.
    """

    worst: int
    typical: int
    rows: int
    data: int


BUDGETS = (Budget(120, 24, 2000, 1_500_000), Budget(40, 8, 300, 500_000), Budget(8, 2, 40, 0))
"""Tried in turn until the page is under the cap. A row of a table takes 0.2 to 1 kB. result.json shrinks to a sixth: the
preset quick has 0.6 MB of it, so the first limit is met by runs of some ten thousand comparisons."""


@dataclass(frozen=True)
class Kept(Generic[T]):
    """``worst`` is in order, worst first; ``typical`` as well. ``left_out`` of ``total`` aren't here."""

    worst: tuple[T, ...]
    typical: tuple[T, ...]
    total: int

    @property
    def all(self) -> tuple[T, ...]:
        return self.worst + self.typical

    @property
    def left_out(self) -> int:
        return self.total - len(self.worst) - len(self.typical)

    @property
    def said(self) -> str:
        """A sentence about what is left out; empty if nothing is."""
        if not self.left_out:
            return ""
        return (
            f"Shown: the {len(self.worst):,} worst and the {len(self.typical):,} nearest the median; "
            f"{self.left_out:,} of {self.total:,} are left out."
        )


def keep(items: Sequence[T], badness: Callable[[T], tuple[float, ...]], budget: Budget) -> Kept[T]:
    """Of ``items`` the worst by ``badness`` (larger is worse), then those nearest its median by rank."""
    ordered = sorted(items, key=badness, reverse=True)
    worst, rest = ordered[: budget.worst], ordered[budget.worst :]
    middle = max(0, len(ordered) // 2 - budget.worst)
    begin = min(max(0, middle - budget.typical // 2), max(0, len(rest) - budget.typical))
    return Kept(tuple(worst), tuple(rest[begin : begin + budget.typical]), len(ordered))
