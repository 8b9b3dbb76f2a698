"""Order statistics of more values than memory holds: exact, by counting leading bits in a few passes.

The bits of non-negative float64 numbers, read as integers, are in the order of the numbers. So the value of a given rank
is found 16 bits at a time: count how many values have each pattern, keep the pattern that the rank falls in, go on inside
it. Four passes, 512 KiB a rank, and the same value whatever the order or the size of the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import ceil

import numpy as np
from numpy.typing import NDArray

__all__ = ["Chunks", "rank_of", "select"]

#: Gives the same values each time it is called, in chunks of any size.
Chunks = Callable[[], Iterable[NDArray[np.float64]]]

_STEP = 16
_PATTERNS = 1 << _STEP


def rank_of(level: float, n: int) -> int:
    """The 0-based rank of the smallest value that a share ``level`` of ``n`` values doesn't exceed.

    It is the rank that numpy's quantile method "inverted_cdf" takes, with the same rounding of n·level.
    """
    return max(0, ceil(n * level - 1))


def select(chunks: Chunks, ranks: Collection[int]) -> dict[int, float]:
    """The value at each 0-based rank. Values are finite and at least 0; every rank is below their number."""
    open_: dict[int, list[tuple[int, int]]] = {0: [(rank, rank) for rank in dict.fromkeys(ranks)]}
    for shift in range(64 - _STEP, -1, -_STEP):
        counts = _count(chunks, open_, shift)
        narrowed: dict[int, list[tuple[int, int]]] = {}
        for prefix, wanted in open_.items():
            upto = np.cumsum(counts[prefix])
            for rank, inside in wanted:
                pattern = int(np.searchsorted(upto, inside, side="right"))
                below = int(upto[pattern - 1]) if pattern else 0
                narrowed.setdefault(prefix << _STEP | pattern, []).append((rank, inside - below))
        open_ = narrowed
    found = {rank: np.uint64(bits) for bits, wanted in open_.items() for rank, _ in wanted}
    return {rank: float(bits.view(np.float64)) for rank, bits in found.items()}


def _count(chunks: Chunks, prefixes: Collection[int], shift: int) -> dict[int, NDArray[np.int64]]:
    """By prefix (the bits left of the pattern), how many values have each pattern."""
    counts = {prefix: np.zeros(_PATTERNS, np.int64) for prefix in prefixes}
    for chunk in chunks():
        bits = np.ascontiguousarray(chunk, np.float64).view(np.uint64)
        for prefix, count in counts.items():
            # A shift by 64 isn't defined; at the first step every value has the empty prefix.
            first = shift + _STEP == 64
            mine = bits if first else bits[bits >> np.uint64(shift + _STEP) == np.uint64(prefix)]
            patterns = (mine >> np.uint64(shift) & np.uint64(_PATTERNS - 1)).astype(np.intp)
            count += np.bincount(patterns, minlength=_PATTERNS)
    return counts
