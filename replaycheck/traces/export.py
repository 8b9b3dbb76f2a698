"""Write traces in formats of other tools, and say what these can't hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from replaycheck.errors import UsageError, choices
from replaycheck.files import atomic_file
from replaycheck.names import did_you_mean
from replaycheck.schema.trace import Group
from replaycheck.traces.export_dag import dag_lines
from replaycheck.traces.export_openai import openai_lines
from replaycheck.traces.importers.log import Log
from replaycheck.traces.write import write_groups

__all__ = ["FORMATS", "export"]

_LINES: Mapping[str, Callable[[Group, Log], Iterator[dict[str, object]]]] = {
    "dag_jsonl": dag_lines,
    "openai": openai_lines,
}

#: What ``trace export --format`` takes.
FORMATS = (*_LINES, "jsonl")


def export(groups: Iterable[Group], name: str, path: Path) -> tuple[int, Log]:
    """Write ``groups`` to ``path`` in the format ``name``, one at a time. Returns the lines written, and what was lost.

    Raises :class:`UsageError` for an unknown format, or if there is nothing to write.
    """
    log = Log()
    if name == "jsonl":
        return write_groups(path, groups), log
    if name not in _LINES:
        raise UsageError(f"format {name!r} is unknown{did_you_mean(name, FORMATS)}; allowed are {choices(FORMATS)}")
    count = 0
    with atomic_file(path) as handle:
        for group in groups:
            for line in _LINES[name](group, log):
                handle.write(json.dumps(line, ensure_ascii=True).encode("ascii") + b"\n")
                count += 1
        if not count:
            raise UsageError(f"nothing to write to {str(path)!r}; give a trace file with at least one group")
    return count, log
