"""A saved run as the report reads it: result, environment and tables of one run directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from replaycheck.replay.parts import read_blocks
from replaycheck.replay.store import Run, open_run, read_environment, read_result
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import Result

__all__ = ["Saved", "load"]


@dataclass(frozen=True)
class Saved:
    """A run directory that is read: result and environment at once, tables when they are asked for."""

    run: Run
    result: Result
    environment: Environment

    def blocks(self, table: str, *columns: str) -> Iterator[pa.Table]:
        """The rows of a table, a bounded number at a time; only these columns, if any is named."""
        return read_blocks(self.run, table, columns or None)


def load(path: Path) -> Saved:
    """Raises :class:`replaycheck.errors.UsageError` if ``path`` isn't a finished run or a file of it is damaged."""
    run = open_run(path)
    return Saved(run, read_result(run), read_environment(run))
