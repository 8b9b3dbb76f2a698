"""A token as a reader should see it: its text where the run's vocabulary is known, its id otherwise, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from replaycheck.traces import vocabulary as ascii_vocabulary

__all__ = ["glyphs", "named"]

MASK = "·"
"""Stands for a token of an imported trace; its id would be as good as its text."""

_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


def named(token: object, vocabulary: str | None) -> str:
    """Text and id: ``'<' (60)``; the id alone in a vocabulary that isn't ours; – for null."""
    text = _text(token, vocabulary)
    return _id(token) if text is None else f"{text!r} ({_id(token)})"


def glyphs(vocabulary: str | None, shown: bool) -> Callable[[object], str]:
    """Short texts for token strips, with spaces that can be seen; ``shown``: whether the run's tokens may be."""

    def show(token: object) -> str:
        if not shown:
            return MASK
        text = _text(token, vocabulary)
        return _id(token) if text is None else "".join(_VISIBLE.get(char, char) for char in text)

    return show


def _text(token: object, vocabulary: str | None) -> str | None:
    if pd.isna(token) or vocabulary != ascii_vocabulary.NAME:
        return None
    identifier = int(str(token))
    return ascii_vocabulary.decode([identifier]) if 0 <= identifier < ascii_vocabulary.SIZE else None


def _id(token: object) -> str:
    return "–" if pd.isna(token) else str(int(str(token)))
