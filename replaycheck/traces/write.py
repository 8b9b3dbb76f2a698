"""Write a trace file, whole or not at all; what is written can be read again and is the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.files import atomic_file
from replaycheck.schema.trace import Group
from replaycheck.traces.checks import check_group

__all__ = ["dump_group", "write_groups"]


def write_groups(path: Path, groups: Iterable[Group], distinct: bool = False) -> int:
    """Write ``groups`` to ``path``, one a line and one at a time; returns how many.

    Args:
        distinct: their names are numbered by the caller, so they needn't be kept to find one that is given twice.

    Raises :class:`UsageError` for a group that could not be read again, and then writes nothing.
    """
    names: set[str] = set()
    count = 0
    with atomic_file(path) as handle:
        for group in groups:
            if group.group in names:
                raise UsageError(f"group {group.group!r} is given twice; a trace file names each group once")
            for problem in check_group(group):
                raise UsageError(f"group {group.group!r} can't be written: {problem}")
            if not distinct:
                names.add(group.group)
            count += 1
            handle.write(dump_group(group).encode("utf-8") + b"\n")
        if not count:
            raise UsageError(f"no group to write to {str(path)!r}; a trace file holds at least one")
    return count


def dump_group(group: Group) -> str:
    """One line of JSON without its newline; what has its default value is left out."""
    return group.model_dump_json(by_alias=True, exclude_defaults=True)
