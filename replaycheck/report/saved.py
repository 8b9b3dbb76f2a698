"""A saved run as the report reads it: result, environment and tables of one run directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from replaycheck.replay.store import Run, open_run, read_environment, read_result, read_table
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import Result

__all__ = ["Saved", "load"]


@dataclass(frozen=True)
class Saved:
    run: Run
    result: Result
    environment: Environment

    def table(self, name: str) -> pd.DataFrame:
        return read_table(self.run, name)


def load(path: Path) -> Saved:
    """Raises :class:`replaycheck.errors.UsageError` if ``path`` isn't a finished run or a file of it is damaged."""
    run = open_run(path)
    return Saved(run, read_result(run), read_environment(run))
