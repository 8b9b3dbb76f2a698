"""Re-tokenisation drift: do the ids of a path come out again when its text is tokenised as a whole?

A server that gets text cuts it into tokens anew. Where a turn ends, or where a text spells a special token, it may cut
otherwise than the trace does; from there on the cached state and the request are about other tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from replaycheck.traces.vocabulary import SPECIAL_NAMES, decode, encode

__all__ = ["boundary_drift", "drifts", "template_encode"]

_IDS = {name: token for token, name in SPECIAL_NAMES.items()}
_SPECIAL = re.compile("|".join(map(re.escape, _IDS)))


def template_encode(text: str) -> list[int]:
    """The ids of ``text`` as tokenizer libraries give them for ``ascii-144``: the name of a special token is that token.

    >>> template_encode("<|user|>hi<|end|>")
    [131, 104, 105, 134]
    """
    ids: list[int] = []
    last = 0
    for match in _SPECIAL.finditer(text):
        ids += [*encode(text[last : match.start()]), _IDS[match[0]]]
        last = match.end()
    return [*ids, *encode(text[last:])]


def drifts(tokens: Sequence[int]) -> bool:
    """Whether a turn's text, rendered by the chat template and tokenised again, gives other ids.

    Turns can be looked at one by one: each begins and ends with a special token, across which nothing merges.
    """
    # A special token's name starts with "<"; a turn without one can't spell it.
    return ord("<") in tokens and template_encode(decode(tokens)) != list(tokens)


def boundary_drift(texts: Sequence[str], encode: Callable[[str], list[int]]) -> Iterator[int]:
    """The boundaries i, after ``texts[i]``, where the ids of the whole aren't those of the parts.

    ``encode`` is a subject's tokenizer. Ids are compared up to the boundary, as a prefix cache does.
    """
    parts: list[int] = []
    whole = encode("".join(texts))
    for index, text in enumerate(texts[:-1]):
        parts += encode(text)
        if whole[: len(parts)] != parts:
            yield index
