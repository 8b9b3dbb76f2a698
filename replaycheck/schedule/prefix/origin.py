"""Identities of token prefixes, by where their tokens come from.

A prefix is compared by turn and offset, not by token ids, so that the plan of a free run, whose answers aren't known yet,
is the same. An answer's role token belongs to its prompt: two answers to one prompt share it. An answer that was forked
from another one shares its first tokens with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from replaycheck.traces.tree import TokenPath

Label = tuple[str, int]
"""Where a token comes from: a turn and an offset in it, or a role token by its id."""


Forks = Mapping[str, tuple[str, int]]
"""By turn: the answer that it was forked from, and how many tokens both share."""


def labels(path: TokenPath, forks: Forks) -> list[Label]:
    """One label a token of the path, BOS first."""
    found: list[Label] = [(f"trace {path.trace}", 0)]
    for name, start, end in path.nodes:
        found.append(("role token", path.tokens[start]))
        found += [(_owner(name, offset, forks), offset) for offset in range(1, end - start)]
    return found


def _owner(turn: str, offset: int, forks: Forks) -> str:
    """The turn that a token was computed for first."""
    while turn in forks and offset <= forks[turn][1]:
        turn = forks[turn][0]
    return turn


class Prefixes:
    """Numbers for prefixes: equal numbers, equal prefixes. Exact, since each is made of a shorter one and a label."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Label], int] = {}

    def of(self, origin: list[Label]) -> tuple[int, ...]:
        """``[n]`` is the number of the first n tokens; 0 is that of no tokens."""
        numbers = [0]
        for label in origin:
            numbers.append(self._numbers.setdefault((numbers[-1], label), len(self._numbers) + 1))
        return tuple(numbers)
