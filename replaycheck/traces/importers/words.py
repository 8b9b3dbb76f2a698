"""The text of a turn before it is cut to size: words of the source, or characters made from a key.

Made characters are a function of their key alone: equal keys give equal text, and the first n characters don't depend on
how many are asked for. So a block id gives the same tokens wherever it occurs, and a scaled turn is a prefix of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from replaycheck.traces.vocabulary import transliterate

from .log import Log

__all__ = ["ALPHABET", "Words", "joined", "literal", "made", "made_text"]

#: 64 characters, so that six bits of a digest choose one without a bias. Twelve blanks make words of about five letters.
ALPHABET = "abcdefghijklmnopqrstuvwxyzabcdefghiklmnoprstuwy,.0" + " " * 14
assert len(ALPHABET) == 64

_BLOCK = 64  # bytes of a digest, so characters of one


@dataclass(frozen=True)
class Words:
    """``length`` characters of ASCII; ``first(n)`` gives the first n of them."""

    length: int
    first: Callable[[int], str]
    private: bool = False


def literal(text: str, log: Log) -> Words:
    """Words of the source, spelled in ASCII."""
    spelled = transliterate(text)
    if spelled is not text:
        log.note("character outside ASCII was spelled in ASCII", sum(not char.isascii() for char in text))
    return Words(len(spelled), lambda count: spelled[:count], private=bool(spelled))


def made(length: int, *key: object) -> Words:
    """``length`` characters made from ``key``."""
    name = "\0".join(map(str, key))
    return Words(length, lambda count: made_text(name, 0, min(count, length)))


def made_text(name: str, start: int, stop: int) -> str:
    """Characters ``start`` to ``stop`` of the endless text of ``name``."""
    pieces = [_made_block(name, index) for index in range(start // _BLOCK, -(-stop // _BLOCK))]
    skipped = start % _BLOCK
    return "".join(pieces)[skipped : skipped + stop - start]


@lru_cache(maxsize=4096)
def _made_block(name: str, index: int) -> str:
    # BLAKE2b keeps apart what must differ: for 1e6 blocks the chance that any two are equal is below 1e-100.
    digest = blake2b(f"{index}\0{name}".encode("utf-8", "surrogatepass"), digest_size=_BLOCK).digest()
    return "".join(ALPHABET[byte & 63] for byte in digest)


def joined(parts: Sequence[Words]) -> Words:
    """One text after the other."""

    def first(count: int) -> str:
        pieces: list[str] = []
        for part in parts:
            if count <= 0:
                break
            pieces.append(part.first(min(count, part.length)))
            count -= part.length
        return "".join(pieces)

    return Words(sum(part.length for part in parts), first, any(part.private for part in parts))
