"""From published files to plain ASCII text: markup removed, e-mail addresses stripped, white space tamed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from replaycheck.traces.vocabulary import transliterate

__all__ = ["html_to_text", "plain"]

_EMAIL: Final = re.compile(r"<?\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b>?")
_BLANK_LINES: Final = re.compile(r"\n{4,}")
_TRAILING: Final = re.compile(r"[ \t\f\v]+$", re.MULTILINE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_HEADINGS: Final = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_TABLES_AND_LISTS: Final = frozenset(["dd", "dl", "dt", "li", "ol", "table", "tr", "ul"])
_PARAGRAPHS: Final = frozenset(["address", "article", "blockquote", "br", "div", "figure", "hr", "p", "pre", "section"])
_BLOCKS: Final = _HEADINGS | _TABLES_AND_LISTS | _PARAGRAPHS
_SILENT_TAGS: Final = frozenset(["script", "style", "nav", "head", "button", "svg", "form"])
# Navigation in the PostgreSQL and SQLite pages, which a page repeats word for word.
_SILENT_CLASSES: Final = frozenset(["navheader", "navfooter", "nosearch", "menu", "toc", "nav-wrapper", "sidebar"])
_VOID_TAGS: Final = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


def plain(text: str) -> str:
    """ASCII text with newlines, no e-mail address, no trailing spaces and at most two blank lines in a row."""
    text = _EMAIL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _CONTROL.sub("", transliterate(text).expandtabs(8))
    return _BLANK_LINES.sub("\n\n\n", _TRAILING.sub("", text)).strip("\n")


def html_to_text(source: str) -> str:
    """The readable text of an HTML page: blocks on lines of their own, navigation and scripts left out."""
    parser = _TextOfHtml()
    parser.feed(source)
    parser.close()
    return "".join(parser.pieces)


class _TextOfHtml(HTMLParser):
    """Collects text; ``_silent`` is the open tag that hides its content, with its depth of nesting."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent = ""
        self._depth = 0
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a block, or start a silence."""
        if self._silent:
            self._depth += tag == self._silent
            return
        classes = (dict(attrs).get("class") or "").split()
        if tag in _SILENT_TAGS or not _SILENT_CLASSES.isdisjoint(classes):
            if tag not in _VOID_TAGS:
                self._silent, self._depth = tag, 1
            return
        self._pre += tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close a block, or end a silence."""
        if self._silent:
            self._depth -= tag == self._silent
            if self._depth == 0:
                self._silent = ""
            return
        self._pre = max(0, self._pre - (tag == "pre"))
        self._break(tag)

    def handle_data(self, data: str) -> None:
        """Text; outside ``pre`` a run of white space is one space."""
        if self._silent:
            return
        if self._pre:
            self.pieces.append(data)
            return
        words = " ".join(data.split())
        if words:
            self.pieces.append(f"{' ' if data[0].isspace() else ''}{words}{' ' if data[-1].isspace() else ''}")
        elif data and self.pieces and not self.pieces[-1].endswith((" ", "\n")):
            self.pieces.append(" ")

    def _break(self, tag: str) -> None:
        if tag in _BLOCKS and self.pieces and not self.pieces[-1].endswith("\n\n"):
            self.pieces.append("\n")
