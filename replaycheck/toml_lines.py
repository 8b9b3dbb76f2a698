"""Where things stand in a TOML file: reports point at the line of a gate, errors at the line of a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache

__all__ = ["line_of", "table_lines"]


@lru_cache(maxsize=8)
def table_lines(text: str, table: str) -> tuple[int, ...]:
    """Lines (from 1) of the headers ``[[table]]``, in order; () if the tables aren't written as such.

    A header inside a multi-line string isn't one: the text before a true header is TOML by itself.
    """
    header = re.compile(rf"\s*\[\[\s*{re.escape(table)}\s*\]\]\s*(#.*)?")
    lines = text.split("\n")
    return tuple(at + 1 for at, line in enumerate(lines) if header.fullmatch(line) and _is_toml("\n".join(lines[:at])))


def line_of(text: str, location: Sequence[int | str]) -> int | None:
    """The line of ``("gate", 2, "bound")``: of the key, or of its table if the key isn't there; None if neither is."""
    match list(location):
        case [str(table), int(index), *keys] if index < len(found := table_lines(text, table)):
            return _key_line(text, found[index], keys) or found[index]
        case [str(key), *_]:
            return _key_line(text, 0, [key])
    return None


def _key_line(text: str, header: int, keys: Sequence[int | str]) -> int | None:
    """The first line after ``header`` (0: the top) that sets the key, up to the next table."""
    if not keys:
        return None
    setting = re.compile(rf"\s*[\"']?{re.escape(str(keys[0]))}[\"']?\s*[=.]")
    for at, line in enumerate(text.split("\n")[header:], header + 1):
        if line.lstrip().startswith("[["):
            return None
        if setting.match(line):
            return at
    return None


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True
