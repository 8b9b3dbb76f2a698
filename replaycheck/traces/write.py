"""Write a trace file, whole or not at all; what is written can be read again and is the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.files import write_atomically
from replaycheck.schema.trace import Group
from replaycheck.traces.checks import check_group

__all__ = ["dump_group", "write_groups"]


def write_groups(path: Path, groups: Iterable[Group]) -> None:
    """Write ``groups`` to ``path``, one a line. Raises :class:`UsageError` for a group that could not be read again."""
    lines: dict[str, str] = {}
    for group in groups:
        if group.group in lines:
            raise UsageError(f"group {group.group!r} is given twice; a trace file names each group once")
        for problem in check_group(group):
            raise UsageError(f"group {group.group!r} can't be written: {problem}")
        lines[group.group] = dump_group(group)
    if not lines:
        raise UsageError(f"no group to write to {str(path)!r}; a trace file holds at least one")
    write_atomically(path, "".join(line + "\n" for line in lines.values()).encode("utf-8"))


def dump_group(group: Group) -> str:
    """One line of JSON without its newline; what has its default value is left out."""
    return group.model_dump_json(by_alias=True, exclude_defaults=True)
