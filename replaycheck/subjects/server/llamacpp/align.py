"""Which entry belongs to which token: by id, never by index.

The server drops the entry of a token that ends inside a UTF-8 character, and the next one stands for both: three tokens,
two entries. Entries keep their order, so they are matched from the left and from the right; a token that the two ways give
different entries has none that is certain.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.compare.top import Entry

__all__ = ["align"]


def align(tokens: Sequence[int], said: Sequence[tuple[int, Entry | None]]) -> tuple[Entry | None, ...]:
    """The entry of each token, or None.

    >>> one, three = (-1.0, {7: -1.0}), (-3.0, {9: -3.0})
    >>> align([7, 8, 9], [(7, one), (9, three)]) == (one, None, three)
    True
    >>> align([7, 7], [(7, one)])
    (None, None)
    """
    ids = [token for token, _ in said]
    left = _matched(tokens, ids)
    right = _matched(tokens[::-1], ids[::-1])[::-1]
    last = len(ids) - 1
    certain = [
        at if at is not None and back is not None and at == last - back else None
        for at, back in zip(left, right, strict=True)
    ]
    return tuple(None if at is None else said[at][1] for at in certain)


def _matched(tokens: Sequence[int], ids: Sequence[int]) -> list[int | None]:
    """For each token the index of the first entry of that id behind the last one that was taken."""
    found: list[int | None] = []
    at = 0
    for token in tokens:
        hit = at < len(ids) and ids[at] == token
        found.append(at if hit else None)
        at += hit
    return found
