"""What a server doesn't say about its cache, found out by asking: whether it reports hits, and the length of its blocks.

A prompt of L tokens that is sent twice hits floor((L − 1)/block)·block tokens. A few lengths leave one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .engine import Ask, Reply

__all__ = ["Learnt", "learn"]

LENGTHS = (2047, 1532, 4093, 3070, 1021, 510, 251)
"""Tokens of the prompts, odd and even: blocks of 16 to 1,072 leave different remainders."""

LARGEST = 4096
"""No engine's block is longer (vLLM's for large states: 528 to 1,072)."""


@dataclass(frozen=True)
class Learnt:
    """reports: whether hits are reported. block: tokens, or None. not_seen: what stays unknown, a sentence each."""

    reports: bool
    block: int | None
    not_seen: tuple[str, ...] = ()


class Asks(Protocol):
    """What is needed of an engine."""

    def begin(self, space: str) -> None: ...

    def ask(self, asks: Sequence[Ask]) -> list[Reply]: ...


def learn(engine: Asks, block: int | None, length: int | None) -> Learnt:
    """Send prompts twice and look at the second one's hit.

    Args:
        block: as given by the user; then one prompt that must hit is enough. length: tokens that the server takes.
    """
    longest = (length or LENGTHS[0] + 2) - 2
    if block is not None:
        seen = _hit(engine, "block", min(2 * block + 1, longest))
        return Learnt(seen is not None, block, () if seen else (_silent(2 * block + 1),))
    left = list(range(1, LARGEST + 1))
    reports = False
    for number, tokens in enumerate(each for each in LENGTHS if each <= longest):
        hit = _hit(engine, f"length {number}", tokens)
        if hit is None:
            continue
        reports = True
        left = [each for each in left if (tokens - 1) // each * each == hit]
        if len(left) <= 1:
            break
    if not reports:
        return Learnt(False, None, (_silent(min(longest, LENGTHS[0])),))
    if len(left) != 1:
        unknown = "the length of its cache blocks, so hits aren't predicted; give --subject-option block=N"
        return Learnt(True, None, (unknown,))
    return Learnt(True, left[0])


def _hit(engine: Asks, space: str, tokens: int) -> int | None:
    """Tokens that a prompt hits when it is sent again; None if none are reported."""
    engine.begin(f"learn/{space}")
    # Some ids, different at each place and small enough for any model.
    ask = Ask(tuple(2 + (at * at + 3 * at) % 97 for at in range(tokens)))
    engine.ask([ask])
    return engine.ask([ask])[0].cached or None


def _silent(tokens: int) -> str:
    return (
        f"hits: a prompt of {tokens:,} tokens that was sent twice had none (is the prefix cache on, and are cached tokens "
        "reported? vLLM: --enable-prefix-caching --enable-prompt-tokens-details)"
    )
