"""The finding codes, each with its page of documentation. The one table is ``codes.toml`` beside this file.

``replaycheck explain``, the report and ``docs/codes/`` read it; the signatures of :mod:`replaycheck.diagnose.findings` and
the rules of :mod:`replaycheck.diagnose.rules` name the code that they diagnosed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from replaycheck.errors import UsageError
from replaycheck.names import MOST, all_of, did_you_mean

__all__ = ["CODES", "Code", "broader", "index", "lookup", "page"]


@dataclass(frozen=True)
class Code:
    """One kind of fault and the five parts of its page. refines: a more general code that is right, too."""

    code: str
    title: str
    what: str
    why: str
    looks: str
    example: str
    do: str
    refines: str | None = None


def _table() -> dict[str, Code]:
    entries = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))
    return {code: Code(code=code, **parts) for code, parts in entries.items()}


CODES: Final[Mapping[str, Code]] = MappingProxyType(_table())


def lookup(code: str) -> Code:
    """The entry of ``code``; case doesn't matter.

    Raises :class:`UsageError` with the known codes.

    >>> lookup("rc101").title
    'extra rounding through bf16 before the store'
    """
    entry = CODES.get(code.upper())
    if entry is None:
        titled = [f"{entry.code}, {entry.title}" for entry in CODES.values() if code.lower() in entry.title.lower()]
        meant = f" (in a title: {'; '.join(titled[:MOST])})" if titled else did_you_mean(code, CODES)
        raise UsageError(f"finding code {code!r} isn't known{meant}; {all_of(CODES, 'replaycheck explain')}")
    return entry


def broader(code: str) -> tuple[str, ...]:
    """``code`` and the more general codes that are right, too.

    >>> broader("RC403")
    ('RC403', 'RC401', 'RC201')
    """
    parent = lookup(code).refines
    return (code, *(broader(parent) if parent else ()))


def page(code: str) -> str:
    """The documentation of ``code`` as Markdown, in five parts."""
    entry = lookup(code)
    parts = (
        ("What it is", entry.what),
        ("Why this is bad", entry.why),
        ("How it looks", entry.looks),
        ("Example", entry.example),
        ("What to do", entry.do),
    )
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts)
    return f"# {entry.code}: {entry.title}\n\n{body}\n"


def index() -> str:
    """One line a code."""
    return "".join(f"{entry.code}  {entry.title}\n" for entry in CODES.values())
