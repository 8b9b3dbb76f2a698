"""Tables as HTML for a notebook. Every text is escaped: traces, recordings and servers are untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from replaycheck.report.text import number
from replaycheck.text import printable

__all__ = ["Cell", "paragraph", "table"]

Cell = str | float | int | None

#: Numbers to the right; everything else is the notebook's own style, so that light and dark both work.
_RIGHT = ' style="text-align:right"'


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str = "") -> str:
    """One HTML table; numbers have three significant digits and null is a dash."""
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str, strong: str = "") -> str:
    """A sentence, with a word before it in bold."""
    lead = f"<b>{_text(strong)}</b> " if strong else ""
    return f"<p>{lead}{_text(text)}</p>"


def _cell(value: Cell) -> str:
    if value is None or isinstance(value, float | int):
        return f"<td{_RIGHT}>{_text(number(value))}</td>"
    return f"<td>{_text(value)}</td>"


def _text(value: str) -> str:
    """Escaped for HTML, and without characters that reorder or hide text."""
    return escape(printable(value), quote=True)
