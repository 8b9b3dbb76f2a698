"""From a gain in capacity back to what yields it. A gain alone names no budget: these are the sets that do.

Reading A, a fixed number of sequences n: their states come off the budget B and the rest caches tokens. The gain is
(B − n·R)/(B − n·N) − 1 with N and R bytes a request before and after, so B = n·(N + (N − R)/gain): one line in (n, B).
Reading B, requests of one length L, as many as fit: a request takes N + L·t, t bytes a token. The gain is
(N + L·t)/(R + L·t) − 1, whatever the budget, so L = ((N − R)/gain − R)/t: one length.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Before", "budget_for", "length_for"]


@dataclass(frozen=True)
class Before:
    """Bytes a request of the native method and of the one that frees memory."""

    native: int
    freed_to: int


def budget_for(gain: float, sequences: int, states: Before) -> float:
    """Bytes of cache per rank at which the token cache grows by ``gain`` (0.1097 for +10.97 %), reading A."""
    return sequences * (states.native + (states.native - states.freed_to) / gain)


def length_for(gain: float, states: Before, token: int) -> float | None:
    """Tokens of context at which ``gain`` more requests fit, reading B; None where no length yields it."""
    if not token:
        return None
    length = ((states.native - states.freed_to) / gain - states.freed_to) / token
    return length if length >= 0 else None
