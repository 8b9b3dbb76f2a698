"""The table of restores as signatures read it: of exact cells, the first faulty ones, and the turn to look at."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from replaycheck.schema.arm import Effect
from replaycheck.schema.gaps import Where

from .evidence import Evidence

__all__ = ["exact_restores", "first_faulty", "first_of_arms", "turn_of_worst", "worst_of_cells"]


def first_of_arms(evidence: Evidence, arms: Collection[str]) -> Where | None:
    """The turn of the worst first faulty restore into one of these arms; None if the table shows no faulty one."""
    rows = exact_restores(evidence)
    if rows.empty:
        return None
    cells = {cell.name for cell in evidence.cells if cell.candidate in arms}
    faulty = (rows["max_error"] > 0) | (rows["conv_equal"] == False)  # noqa: E712  (null means not seen)
    bad = first_faulty(rows[rows["cell"].isin(cells) & faulty])
    return None if bad.empty else turn_of_worst(bad)


def exact_restores(evidence: Evidence) -> pd.DataFrame:
    """Restores of the cells that compare warm with split-rounded, with the position as a number."""
    if evidence.restores.empty:
        return evidence.restores
    names = {cell.name for cell in evidence.cells if cell.effect is Effect.EXACT}
    rows = evidence.restores[evidence.restores["cell"].astype(str).isin(names)].copy()
    rows["cell"], rows["trace"] = rows["cell"].astype(str), rows["trace"].astype(str)
    rows["restore"] = rows["restore"].astype(str)
    rows["at"] = rows["restore"].str.rpartition("@")[2].astype(int)
    return rows


def first_faulty(bad: pd.DataFrame) -> pd.DataFrame:
    """Of each cell and trace, the rows at the smallest position."""
    if bad.empty:
        return bad
    return bad[bad["at"] == bad.groupby(["cell", "trace"])["at"].transform("min")]


def worst_of_cells(bad: pd.DataFrame) -> list[pd.Series]:
    """The row with the largest error of each cell, worst first."""
    ordered = bad.sort_values(["max_error", "cell", "trace"], ascending=[False, True, True])
    return [row for _, row in ordered.drop_duplicates("cell").iterrows()]


def turn_of_worst(bad: pd.DataFrame) -> Where:
    """The turn of the worst restore; a restore is named BRANCH/TURN@POSITION."""
    row = worst_of_cells(bad)[0]
    branch, _, turn = str(row["restore"]).partition("@")[0].partition("/")
    return Where(trace=str(row["trace"]), branch=int(branch), turn=int(turn))
