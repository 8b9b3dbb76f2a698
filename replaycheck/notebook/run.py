"""A saved run opened for a notebook. Tables are read when they are asked for, and kept.

The whole of a table is in memory then: a row of observations takes about 400 bytes. For more than that, ``blocks`` of
``replaycheck.report.saved`` reads a part at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.replay.parts import read_table
from replaycheck.report.saved import Saved
from replaycheck.report.saved import load as load_saved
from replaycheck.report.verdict import answer
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import Result
from replaycheck.schema.tables import MEANINGS, TABLES

from .shown import Cells, Compared, Gates, Judged, Verdict

__all__ = ["LoadedRun"]


@dataclass(frozen=True)
class LoadedRun:
    """One run directory. :meth:`columns` says what the columns of a table mean, with units.

    The four tables are :class:`pandas.DataFrame`, rows in key order, strings decoded, nullable integers as ``Int32``.
    """

    saved: Saved

    @classmethod
    def open(cls, path: Path) -> LoadedRun:
        """Raises :class:`replaycheck.errors.UsageError` if ``path`` isn't a finished run."""
        return cls(load_saved(path))

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.saved.run.path

    @property
    def result(self) -> Result:
        """All of result.json."""
        return self.saved.result

    @property
    def environment(self) -> Environment:
        """All of environment.json (versions, device, command, times)."""
        return self.saved.environment

    @cached_property
    def observations(self) -> pd.DataFrame:
        """What the subject said, a row for each scored position and arm."""
        return read_table(self.saved.run, "observations")

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """What the two arms of a cell said, a row for each scored position; candidate minus reference."""
        return read_table(self.saved.run, "pairs")

    @cached_property
    def restores(self) -> pd.DataFrame:
        """Errors of restored states, a row for each restore, layer and head of the cells whose candidate is warm."""
        return read_table(self.saved.run, "restores")

    @cached_property
    def divergences(self) -> pd.DataFrame:
        """Where the two arms of a cell part or that they don't (``censored``), a row for each kind and branch."""
        return read_table(self.saved.run, "divergences")

    def columns(self, table: str) -> pd.DataFrame:
        """What the columns of a table mean, with units and when they are null: column, type, meaning.

        ``table``: observations, pairs, restores or divergences; for another one :class:`replaycheck.errors.UsageError`.
        """
        self._known("table", table, list(TABLES))
        kinds = [str(kind) for kind in TABLES[table].types]
        shown = ["string" if kind.startswith("dictionary") else kind for kind in kinds]
        rows = zip(TABLES[table].names, shown, MEANINGS[table].values(), strict=True)
        return pd.DataFrame(rows, columns=["column", "type", "meaning"])

    @property
    def verdict(self) -> Verdict:
        """The answer, with what was compared and the findings."""
        said, summary = answer(self.result), self.result.summary
        return Verdict(
            said.verdict,
            summary.exit_code,
            said.question,
            said.short,
            said.sentence,
            said.amount,
            self.result.findings,
        )

    @property
    def gates(self) -> Gates:
        """The gates as they were judged when the run was made."""
        return Gates(self.result.gates)

    @property
    def cells(self) -> Cells:
        """The compared pairs of arms."""
        return Cells(self.result.cells, {arm.name: arm for arm in self.result.arms})

    def trace(self, trace: str, cell: str) -> pd.DataFrame:
        """The pairs of one trace under one cell, in order of branch, turn and position.

        Raises :class:`replaycheck.errors.UsageError` if the run has no such pair, and says which names there are.
        """
        self._known("cell", cell, [each.name for each in self.result.cells])
        self._known("trace", trace, sorted(self.pairs["trace"].unique()))
        rows = self.pairs[(self.pairs["trace"] == trace) & (self.pairs["cell"] == cell)]
        return rows.sort_values(["experiment", "branch", "turn", "position"], ignore_index=True)

    def judge(self, *gates: str | Path) -> Judged:
        """The run under other gate files, each a path or a shipped name; under its own, if none is given.

        Nothing is replayed or written. Raises :class:`replaycheck.errors.UsageError` for a gate file that is wrong.
        """
        from replaycheck.replay.rejudge import rejudge

        found = rejudge(self.path, [str(name) for name in gates])
        return Judged(found.summary, Gates(found.gates), found.warnings)

    def compare(self, other: LoadedRun | str | Path) -> Compared:
        """This run (A) against another one (B), at the positions that both scored.

        Raises :class:`replaycheck.errors.UsageError` if they can't be compared: another model, other tokens.
        """
        from replaycheck.replay.across import compare_runs

        return Compared(compare_runs(self.path, other.path if isinstance(other, LoadedRun) else Path(other)))

    def _known(self, what: str, name: str, there: list[str]) -> None:
        if name not in there:
            few = [*there[:8], "…"] if len(there) > 8 else there
            raise UsageError(
                f"the run in {str(self.path)!r} has no {what} {name!r}{did_you_mean(name, there)}; it has {choices(few)}"
            )

    def _repr_html_(self) -> str:
        return self.verdict._repr_html_() + self.gates._repr_html_()
