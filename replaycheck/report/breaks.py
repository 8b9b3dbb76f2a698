"""Where a browser may break the name of an arm: after its slashes, not at the hyphens of its words; a number nowhere.

``warm/chunk-chunk/decoded`` would else end a line with ``chunk-``, which reads as another name, and ``2e-06`` with ``2e-``.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from replaycheck.text import printable

__all__ = ["names"]

_NAME = re.compile(r"[^\s,;:()]+/[^\s,;:()]+|\b\d[\d.]*e-\d+")

LONGEST = 24
"""Characters of a word that is kept on one line: with more, a name that somebody else chose wouldn't fit 420 px."""


def names(text: str) -> Markup:
    """``text``, escaped, with break opportunities in each word that holds a slash, and none in a number."""
    parts, end = [], 0
    for found in _NAME.finditer(text):
        parts += [escape(printable(text[end : found.start()])), _name(found[0])]
        end = found.end()
    return Markup("").join([*parts, escape(printable(text[end:]))])


def _name(name: str) -> Markup:
    return Markup("/<wbr>").join(_word(word) for word in name.split("/"))


def _word(word: str) -> Markup:
    shown = printable(word)
    return (
        Markup('<span class="nb">{}</span>').format(shown) if "-" in shown and len(shown) <= LONGEST else escape(shown)
    )
