"""The sizes of a suite. Lengths and counts are written for ``large`` and scaled; positions on a grid are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

__all__ = ["LARGE", "MEDIUM", "SIZES", "SMALL", "TINY", "Size"]


@dataclass(frozen=True)
class Size:
    """length: share of a text's or an answer's length. count: share of turns, sessions and branches."""

    name: str
    length: float
    count: float

    def tokens(self, large: int, least: int = 1) -> int:
        """A length of ``large`` tokens, scaled."""
        return max(round(large * self.length), least)

    def times(self, large: int, least: int = 2) -> int:
        """``large`` turns, sessions or branches, scaled."""
        return max(ceil(large * self.count), least)


# Prefill with the cache off grows with lengths and counts: 1, about 1/3 and 1/10 of the lengths in the field's list.
LARGE = Size("large", 1.0, 1.0)
MEDIUM = Size("medium", 0.5, 0.67)
SMALL = Size("small", 0.25, 0.4)
#: Of the suite ci alone: many short traces.
TINY = Size("tiny", 0.1, 0.2)

SIZES: Mapping[str, Size] = {size.name: size for size in (SMALL, MEDIUM, LARGE)}
