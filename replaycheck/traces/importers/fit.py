"""How long the turns of an imported group become: all by one factor, so that the longest path fits.

A turn keeps its first characters, at least one if it had any. So a path keeps its turns, equal turns stay equal, and what
two prompts share stays what they share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .draft import Ask, DraftGroup, DraftTrace
from .log import Log

__all__ = ["Fitted", "fit"]

#: Tokens of a turn beside its characters (role, END), and of a path beside its turns (BOS).
_OWN, _BOS = 2, 1

# Each step shortens a path that is still too long because of the turns that keep one character.
_STEP = 0.9
# Of a turn of a million characters one is left then, which is as short as a turn can be.
_SMALLEST = 1e-6


@dataclass(frozen=True)
class Fitted:
    """The factor, and the requests whose path fits."""

    scale: float
    asks: Sequence[Ask]

    def length(self, characters: int) -> int:
        return kept_length(characters, self.scale)


def kept_length(characters: int, scale: float) -> int:
    """Characters of a turn that are kept.

    >>> [kept_length(n, 0.25) for n in (0, 1, 7, 8)]
    [0, 1, 1, 2]
    """
    # The product of a ratio and a length it was made for may fall below the whole number by one rounding (1e-16).
    return max(1, int(characters * scale + 1e-9)) if characters else 0


def fit(group: DraftGroup, scale: float, most: int | None, log: Log) -> Fitted:
    """The largest factor up to ``scale`` with which paths have at most ``most`` tokens.

    A path whose turns don't fit though each has but one character is dropped.
    """
    asks = list(group.ordered())
    if most is None:
        return Fitted(scale, asks)
    lengths = {ask: _characters(group.traces[ask.trace], ask.turn) for ask in asks}
    possible = [ask for ask in asks if _tokens(lengths[ask], 0.0) <= most]
    log.drop(f"request whose turns alone are longer than --max-tokens {most}", len(asks) - len(possible))
    return Fitted(_shrink([lengths[ask] for ask in possible], scale, most), possible)


def _shrink(paths: Sequence[Sequence[int]], scale: float, most: int) -> float:
    for path in paths:
        room = most - _BOS - _OWN * len(path)
        if _tokens(path, scale) > most:
            scale = min(scale, room / sum(path))
        while _tokens(path, scale) > most and scale > _SMALLEST:
            scale *= _STEP
    return scale


def _characters(trace: DraftTrace, turn: int) -> tuple[int, ...]:
    return tuple(trace.turns[each].words.length for each in trace.lineage(turn))


def _tokens(path: Sequence[int], scale: float) -> int:
    return _BOS + sum(_OWN + kept_length(characters, scale) for characters in path)


def needed(group: DraftGroup, asks: Sequence[Ask]) -> Mapping[str, list[int]]:
    """The turns that lead to a request, in file order, by trace; traces without one are left out."""
    used: dict[str, set[int]] = {}
    for ask in asks:
        used.setdefault(ask.trace, set()).update(group.traces[ask.trace].lineage(ask.turn))
    return {name: sorted(used[name]) for name in group.traces if name in used}
