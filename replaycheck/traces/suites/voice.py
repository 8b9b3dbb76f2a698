"""Texts of a kind and a length, made of templates and words by a seed."""

from __future__ import annotations

import re

from .draw import Draw
from .voices import VOICES
from .words import WORDS

__all__ = ["Voice"]

_SLOT = re.compile(r"\{(\w+)\}")
#: Kinds of which every sentence is a line of its own.
_LINES = frozenset({"tools", "result", "code", "shots"})


class Voice:
    """Says things; what it says next depends on its seed, its names and what it said before."""

    def __init__(self, seed: int, *names: str) -> None:
        self.draw = Draw(seed, *names)

    def once(self, kind: str) -> str:
        """One sentence or line."""
        line = _SLOT.sub(lambda slot: self.draw.pick(WORDS[slot[1]]), self.draw.pick(VOICES[kind]))
        return line.replace("{{", "{").replace("}}", "}")

    def say(self, kind: str, length: int) -> str:
        """A text of exactly ``length`` characters, which are tokens; the last sentence may be cut."""
        joint, parts, size = "\n" if kind in _LINES else " ", list[str](), -1
        while size < length:
            parts.append(self.once(kind))
            size += len(parts[-1]) + 1
        # No text ends in a blank, which is easily lost when it is copied.
        text = joint.join(parts)[:length]
        return text[:-1] + "." if text[-1:].isspace() else text
