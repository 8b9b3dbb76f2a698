"""Playing moves on a server, and what it said: log-probabilities by id, and hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replaycheck.subjects.server.llamacpp.wire import Completion, Wire, force

from .moves import Move

__all__ = ["Said", "cold", "decoded", "warm"]

Tokens = tuple[int, ...]
Logprobs = NDArray[np.float64]
"""[positions, vocabulary], nat; NaN where the server said nothing."""

_FILE = "slot.bin"
NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Said:
    """About one move. hit: tokens of the prompt from the cache; drafted: by speculation; None: not reported."""

    move: Move
    logprobs: Logprobs
    hit: int | None
    drafted: int | None = None


def warm(wire: Wire, moves: Iterable[Move], fields: Mapping[str, Any] = NO_FIELDS, pinned: bool = True) -> list[Said]:
    """All moves in order with the cache on; without ``pinned`` the server chooses slots."""
    said = []
    for move in moves:
        for action in move.actions:
            wire.slot_action(0, action, None if action == "erase" else _FILE)  # type: ignore[arg-type]
        both = [move] if move.beside is None else [move, move.beside]
        with ThreadPoolExecutor(len(both)) as threads:
            answers = list(threads.map(lambda each: _ask(wire, each, fields, pinned), both))
        said += [
            Said(each, table(answer, len(each.answer), wire.best), answer.cached, answer.drafted)
            for each, answer in zip(both, answers, strict=True)
        ]
    return said


def cold(wire: Wire, prompt: Tokens, answer: Tokens) -> Logprobs:
    """The answer with nothing from a cache."""
    said = wire.complete(prompt, len(answer), cache=False, slot=0, grammar=force(answer, frozenset()))
    return table(said, len(answer), wire.best)


def decoded(wire: Wire, prompt: Tokens, answer: Tokens, last: int) -> Logprobs:
    """The same with the prompt's last tokens run one at a time: another legitimate split, and no hit."""
    forced = prompt[-last:] + answer
    said = wire.complete(prompt[:-last], len(forced), cache=False, slot=0, grammar=force(forced, frozenset()))
    return table(said, len(forced), wire.best)[last:]


def _ask(wire: Wire, move: Move, fields: Mapping[str, Any], pinned: bool) -> Completion:
    return wire.complete(
        move.prompt,
        len(move.answer),
        slot=int(move.other) if pinned else None,
        grammar=force(move.answer, frozenset()),
        fields=fields,
    )


def table(said: Completion, positions: int, vocabulary: int) -> Logprobs:
    """What was said of the first positions."""
    found = np.full((positions, vocabulary), np.nan)
    for row, entry in zip(found, said.entries[:positions], strict=False):
        for token, logprob in (entry[1] if entry else {}).items():
            row[token] = logprob
    return found


def difference(one: Logprobs, other: Logprobs) -> tuple[float, int]:
    """Largest difference over all that both said, nat, and how many positions that was; NaN and 0 if none."""
    both = np.abs(one - other)
    seen = ~np.isnan(both).all(axis=1)
    return (float(np.nanmax(both[seen])) if seen.any() else float("nan")), int(seen.sum())


def largest(pairs: Sequence[tuple[Logprobs, Logprobs]]) -> float:
    """Of several; 0 without any."""
    return max((value for value, seen in (difference(*pair) for pair in pairs) if seen), default=0.0)
