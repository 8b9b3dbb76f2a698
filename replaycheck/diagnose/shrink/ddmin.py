"""Delta debugging: the fewest parts of a list, or the smallest number, for which a test still holds.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002): leave out a part at a time, halves first,
then finer. The result is 1-minimal: no single part can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["fewest", "least"]

Part = TypeVar("Part")


def fewest(parts: Sequence[Part], fails: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """A 1-minimal sublist for which ``fails`` holds, given that it holds for all of ``parts``.

    >>> fewest([1, 2, 3, 4, 5, 6, 7, 8], lambda kept: 3 in kept and 7 in kept)
    [3, 7]
    """
    kept = list(parts)
    size = len(kept)
    while size and kept:
        at = 0
        while at < len(kept):
            without = kept[:at] + kept[at + size :]
            if fails(without):
                kept = without
            else:
                at += size
        size = size // 2 if size > 1 else 0
    return kept


def least(number: int, fails: Callable[[int], bool], lowest: int = 0) -> int:
    """A small number for which ``fails`` holds, given that it holds for ``number``.

    What fails needn't fail for every larger number (a boundary that is met by chance), so this takes steps of falling size
    from above instead of halving an interval.

    >>> least(1000, lambda n: n >= 37)
    37
    """
    step = number - lowest
    while step:
        while number - step >= lowest and fails(number - step):
            number -= step
        step //= 2
    return number
