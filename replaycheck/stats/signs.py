"""Paired arms, one vote a trace: which side parted first, which side lost more (docs/statistics.md, First divergence).

An exact binomial test of the votes (the sign test; on discordant pairs it is McNemar's exact test). Ties don't vote; they
are counted, because a trace set of ties says nothing about direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from replaycheck.errors import InternalError

__all__ = ["SignTest", "first_to_part", "mcnemar", "sign_test", "votes"]

Tokens = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SignTest:
    """Votes of traces. ``p``: two-sided, of equal chances; 1 without a vote."""

    a: int
    b: int
    ties: int  # both sides the same
    undecided: int  # nobody can tell: both censored, or one censored before the other parted
    p: float

    @property
    def n(self) -> int:
        """Traces that voted."""
        return self.a + self.b


def sign_test(a: int, b: int, ties: int = 0, undecided: int = 0) -> SignTest:
    """``a`` votes against ``b``.

    >>> round(sign_test(18, 40).p, 4)
    0.0054
    """
    p = float(binomtest(a, a + b, 0.5).pvalue) if a + b else 1.0
    return SignTest(a, b, ties, undecided, p)


def votes(difference: NDArray[np.float64]) -> SignTest:
    """One number a trace [n]: positive votes for a, negative for b, 0 is a tie."""
    a, b = int((difference > 0).sum()), int((difference < 0).sum())
    return sign_test(a, b, ties=len(difference) - a - b)


def mcnemar(a_only: Tokens, b_only: Tokens) -> SignTest:
    """One vote a trace [n]: does it have more positions of which only a is right, or of which only b is?

    "Right" is the reference's business: top-1 equal to the scored token, say. Positions on which both agree don't count.
    Raises InternalError if the arrays differ in length.

    >>> mcnemar(np.array([3, 0, 2, 1]), np.array([0, 0, 0, 2]))
    SignTest(a=2, b=1, ties=1, undecided=0, p=1.0)
    """
    _paired(a_only, b_only)
    return votes((a_only - b_only).astype(np.float64))


def first_to_part(a: Tokens, a_censored: Mask, b: Tokens, b_censored: Mask) -> SignTest:
    """Which of two arms diverged first, by trace [n]: a vote for the arm with the earlier divergence.

    ``a``, ``b``: tokens since the first restore, of the divergence or (``censored``) of the end. An arm that is censored
    at or after the other's divergence lasted longer. One that is censored before it might have parted first, or not.
    """
    _paired(a, b)
    a_first = ~a_censored & np.where(b_censored, a <= b, a < b)
    b_first = ~b_censored & np.where(a_censored, b <= a, b < a)
    ties = int((~a_censored & ~b_censored & (a == b)).sum())
    won, lost = int(a_first.sum()), int(b_first.sum())
    return sign_test(won, lost, ties, len(a) - won - lost - ties)


def _paired(a: Tokens, b: Tokens) -> None:
    if len(a) != len(b):
        raise InternalError(
            f"{len(a)} and {len(b)} traces can't be paired; both arms need the same traces in one order"
        )
