"""Which cell and group of a run to make small: the failing exact cell that fails on the shortest group."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.replay.parts import Run, read_part
from replaycheck.replay.settings import Settings
from replaycheck.replay.store import groups_done
from replaycheck.replay.worker import Work
from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.result import ArmResult, CellResult, Result

from ..again import Case
from .failure import Check, checks, main_check

__all__ = ["choose", "failing_cells", "work_of"]

_FIRST = 8
"""Groups of a cell that are tried, shortest first: those that the tables name fail in all but odd cases."""


def work_of(settings: Settings) -> Work:
    """What a worker of these settings does."""
    s = settings
    return Work(s.arms, s.cells, s.model, s.recipe, s.faults, s.kernels, s.audit, s.subject)


def failing_cells(result: Result) -> list[CellResult]:
    """Exact cells with any sign of failure, those with the most signs first."""
    arms = {arm.name: arm for arm in result.arms}
    exact = [cell for cell in result.cells if cell.effect is Effect.EXACT]
    signs = {cell.name: _signs(cell, arms[cell.candidate]) for cell in exact}
    return sorted((cell for cell in exact if signs[cell.name]), key=lambda cell: -signs[cell.name])


def _signs(cell: CellResult, arm: ArmResult) -> int:
    return sum(
        (
            bool(cell.bits_differ),
            bool(cell.restore_max_error),
            bool(cell.conv_unequal),
            bool(arm.label_mismatches or arm.content_mismatches),
            arm.proven_hits < arm.expected_hits,
        )
    )


def choose(settings: Settings, run: Run, result: Result, cell: str | None = None) -> tuple[Case, Check]:
    """The case to make small, and the check that it fails.

    Raises:
        UsageError: no exact cell fails, or the run doesn't fail again.
    """
    found = failing_cells(result)
    if cell is not None:
        _refuse_unknown(result, cell)
        found = [each for each in found if each.name == cell]
    if not found:
        raise UsageError(
            "no exact cell of the run fails, so there is nothing to make small; give a run with `exact` in its gates that "
            "fails, or --cell NAME of one that does"
        )
    arms = {arm.name: arm for arm in settings.arms}
    for each in found:
        known = Cell(effect=each.effect, reference=each.reference, candidate=each.candidate)
        work = work_of(settings)
        for number in _groups(settings, run, known.name):
            case = Case(work, settings.groups[number], arms[each.reference], arms[each.candidate])
            check = main_check(checks(case))
            if check is not None:
                return case, check
    raise UsageError(
        "the failing cells of the run don't fail when they are run again; was the model, or the code, changed?"
    )


def _refuse_unknown(result: Result, cell: str) -> None:
    names = [each.name for each in result.cells if each.effect is Effect.EXACT]
    if cell not in names:
        there = choices(names) if names else "none"
        raise UsageError(f"--cell {cell!r} is no exact cell of the run{did_you_mean(cell, names)}; it has {there}")


def _groups(settings: Settings, run: Run, cell: str) -> list[int]:
    """Numbers of groups in which the cell differs, shortest first; all of them if the tables name none."""
    traces = set(_traces(run, cell))
    order = sorted(range(len(settings.groups)), key=lambda number: (settings.groups.prompts[number], number))
    named = [number for number in order if traces & {trace.id for trace in settings.groups[number].traces}]
    return (named or order)[:_FIRST]


def _traces(run: Run, cell: str) -> Iterator[str]:
    for part in sorted(groups_done(run)):
        rows = read_part(run, "pairs", part, ("cell", "trace", "bits_equal"))
        wrong = rows.filter(pc.and_(pc.equal(rows["cell"].cast("string"), cell), pc.invert(rows["bits_equal"])))
        yield from pc.unique(wrong["trace"].cast("string")).to_pylist()
