"""RC905: cold and warm differ by more than a gate allows though no exact check fails: which positions, and why there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from replaycheck.diagnose.codes import lookup
from replaycheck.diagnose.shrink.choose import failing_cells
from replaycheck.errors import ReplayCheckError
from replaycheck.replay.conclude import Deeper
from replaycheck.replay.parts import Run
from replaycheck.replay.settings import Settings
from replaycheck.say import Say
from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import Condition
from replaycheck.schema.result import CellResult, Finding, Result
from replaycheck.subjects.choose import LAB

from .worst import condition_text, worst_conditions

__all__ = ["CELLS", "CODE", "beyond_floor", "total_cells"]


CODE = "RC905"

CELLS = 2
"""Failing cells whose worst positions are looked at; each takes a few replays of some groups."""


def beyond_floor(settings: Settings, run: Run, then: Deeper, say: Say) -> Deeper:
    """The findings of ``then``, and of the lab one more: the condition of the worst positions of failing total cells.

    Where an exact cell fails, ``then`` names the fault, and what it does to cold against warm needs no other explanation.
    """

    def find(result: Result, found: Sequence[Finding]) -> tuple[Finding, ...]:
        every = then(result, found)
        cells = total_cells(result)[:CELLS]
        if settings.subject != LAB or not settings.explain or not cells or failing_cells(result):
            return every
        try:
            conditions = worst_conditions(settings, run, result, cells, say)
        except ReplayCheckError as error:
            say(f"condition of the worst positions not measured: {error}")
            return every
        return (*every, _finding(conditions, settings.reproduce)) if conditions else every

    return find


def total_cells(result: Result) -> list[CellResult]:
    """Total cells in which a failing gate has its value."""
    worst = [gate.worst for gate in result.gates if gate.verdict == "fail"]
    totals = [cell for cell in result.cells if cell.effect is Effect.TOTAL and not cell.vacuous]
    return [cell for cell in totals if any(each.startswith(cell.name) for each in worst)]


def _finding(conditions: Sequence[Condition], reproduce: str) -> Finding:
    kinds = Counter(each.kind for each in conditions)
    cuts, ill, suspicious = (kinds[kind] for kind in ("cuts", "ill-conditioned", "suspicious"))
    return Finding(
        code=CODE,
        title=lookup(CODE).title,
        sentence=(
            f"Of the {len(conditions)} worst positions of cold against warm, other cuts alone explain {cuts}; {ill} are "
            f"ill-conditioned, one rounding of the restored state moves them that far; {suspicious} are suspicious: it "
            "doesn't."
        ),
        evidence=tuple(condition_text(each) for each in conditions),
        reproduce=reproduce,
        confidence=None,
    )
