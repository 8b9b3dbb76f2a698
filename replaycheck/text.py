"""Text for a terminal: in lines and columns, and safe, since what a trace, a file or a server sent must not steer it.

What came from outside goes through :func:`printable` or :func:`shorten` before it is printed.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Container, Sequence

__all__ = ["aligned", "columns", "printable", "shorten", "wrapped"]

NARROWEST = 60
"""Columns that lines are made for at least: with fewer, numbers would be parted from their names."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Control, format (direction overrides among them), surrogate, private and unassigned characters, line separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """``text`` on one line, with every control, format or unassigned character written as an escape.

    >>> printable("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\\\n'
    """
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if unicodedata.category(char) not in _UNSAFE:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, width: int) -> str:
    """The printable form of ``text``, cut to ``width`` columns with an ellipsis.

    >>> shorten("a long sentence", 8)
    'a long …'
    """
    # Escapes only make text longer, so nothing past width + 1 characters can show.
    shown = printable(text[: width + 1])
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def columns(otherwise: int) -> int:
    """How wide the terminal is that standard output goes to, at least :data:`NARROWEST`; ``otherwise`` if it is none."""
    return max(NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else otherwise


def wrapped(text: str, indent: int = 8) -> str:
    """One long line cut between words for the terminal, later ones indented; as it is where no terminal reads it."""
    if len(text) <= (width := columns(len(text))):
        return text
    return textwrap.fill(text, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Rows of equally many cells as lines, with columns two spaces apart; those in ``right`` (from 0) end together.

    >>> aligned([("arm", "n"), ("warm", "12")], right=(1,))
    ['arm    n', 'warm  12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
