"""Where the history of a restored state was cut: what a split arm has to repeat, from the hits that warm reported.

The state at 1,152 tokens may have been built as 0→896→1,152, by two requests. A split that repeats the last cut alone
differs from warm by the grid effect of the others (measured on vLLM 0.24.0: 0.08 nat; with the whole chain exactly 0).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Cuts"]


class Cuts:
    """The requests of one warm arm in the order in which they were sent."""

    def __init__(self) -> None:
        self._built: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._asked: dict[tuple[int, int], tuple[int, ...]] = {}

    def saw(self, request: int, tokens: Sequence[int], cached: int, known: tuple[int, ...] | None = None) -> None:
        """A prompt of a request was computed from a hit of ``cached`` tokens on. known: its cuts, if the engine tells."""
        whole = tuple(tokens)
        if known is not None:
            self._asked[request, len(whole)] = known
            return
        chain = (*self._built.get(whole[:cached], ()), cached) if cached else ()
        self._asked[request, len(whole)] = chain
        # Whoever stored a state first is whose state it is; this prompt may have stored one at any of its new tokens.
        for end in range(cached + 1, len(whole) + 1):
            self._built.setdefault(whole[:end], chain)

    def of(self, request: int, length: int) -> tuple[int, ...]:
        """The cuts of the prompt with so many tokens, by rising position."""
        return self._asked.get((request, length), ())
