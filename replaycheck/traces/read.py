"""Read a trace file: JSON lines, one group a line, each fault named as ``FILE:LINE: field: what, allowed, what to do``.

``read_groups`` stops at the first problem; ``scan`` goes on and is what ``trace validate`` lists. Lines are read one at
a time with a limit, so a file that never ends its line can't take the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import ValidationError

from replaycheck.errors import UsageError
from replaycheck.schema.problems import Problem, problems
from replaycheck.schema.trace import Group
from replaycheck.traces.checks import check_group

__all__ = ["MAX_LINE", "Line", "each_group", "read_groups", "scan"]

#: Bytes of one line. The longest real session known has 0.9 M tokens, about 5 MB as text and ids; this is 12 of them.
MAX_LINE = 64 * 1024 * 1024

_ADVICE = "see `replaycheck schema trace`"
_BOMS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class Line(NamedTuple):
    """One line of a trace file: its group, or what is wrong with it, and the bytes of the file that it takes."""

    number: int
    group: Group | None
    problems: tuple[Problem, ...]
    start: int = 0
    size: int = 0


def read_groups(path: Path) -> tuple[Group, ...]:
    """The groups of a trace file. Raises :class:`UsageError` for the first problem; a file without a group is one."""
    return tuple(each_group(path))


def each_group(path: Path) -> Iterator[Group]:
    """The groups of a trace file, one at a time, for files that don't fit into memory; else as :func:`read_groups`."""
    for line in scan(path):
        if line.problems or line.group is None:
            raise UsageError(located(path, line.number, line.problems[0]))
        yield line.group


def located(path: Path, number: int, problem: Problem) -> str:
    """``FILE:LINE: field: what, allowed, what to do``."""
    return f"{path}:{number}: {problem}"


def scan(path: Path) -> Iterator[Line]:
    """Each line of ``path`` that isn't blank; after a line that can't be read at all, no more.

    Raises :class:`UsageError` if the file can't be opened.
    """
    try:
        with path.open("rb") as handle:
            yield from _scan(handle)
    except OSError as error:
        raise UsageError(
            f"{str(path)!r} can't be read ({error.strerror}); give a trace file (.jsonl), or suite:NAME"
        ) from None


def _scan(handle: BinaryIO) -> Iterator[Line]:
    first_line: dict[str, int] = {}
    number = start = 0
    blank = True
    while raw := handle.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE:
            text = f"the line is longer than {MAX_LINE} bytes; a trace file has one group a line, split the group"
            yield Line(number, None, (Problem("", text),))
            return
        if raw.strip():
            blank = False
            yield _parse(raw, number, first_line)._replace(start=start, size=len(raw))
        start += len(raw)
    if blank:
        yield Line(1, None, (Problem("", "the file is empty; a trace file has one group a line"),))


def _parse(raw: bytes, number: int, first_line: dict[str, int]) -> Line:
    unreadable = _bytes_problem(raw, number)
    if unreadable is not None:
        return Line(number, None, (unreadable,))
    try:
        # Strict: "7" or 7.0 is no token id, though it could be turned into one.
        group = Group.model_validate_json(raw, strict=True)
    except ValidationError as error:
        return Line(number, None, tuple(problems(error, _ADVICE)))
    found = list(check_group(group))
    if group.group in first_line:
        text = f"{group.group!r} is on line {first_line[group.group]}, too; give each group an id of its own"
        found.insert(0, Problem("group", text))
    first_line.setdefault(group.group, number)
    return Line(number, group, tuple(found))


def _bytes_problem(raw: bytes, number: int) -> Problem | None:
    """What keeps the bytes of a line from being JSON text."""
    bom = next((name for mark, name in _BOMS.items() if number == 1 and raw.startswith(mark)), None)
    if bom is not None:
        return Problem("", f"the file starts with a {bom} byte order mark; save it as UTF-8 without one")
    if b"\0" in raw:
        return Problem(
            "", f"a NUL byte at column {raw.index(0) + 1}; JSON text has none (UTF-16?); save the file as UTF-8"
        )
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = raw[error.start]
        return Problem("", f"byte 0x{bad:02x} at column {error.start + 1} isn't UTF-8; save the file as UTF-8")
    return None
