"""How far two sequences of tokens are the same: what every prefix cache turns on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

__all__ = ["common"]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that both begin with.

    >>> common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
