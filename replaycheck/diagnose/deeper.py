"""The findings of a run that failed: what the tables say, and one case run again step by step and explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from replaycheck.errors import ReplayCheckError
from replaycheck.replay.parts import Run, read_part
from replaycheck.replay.settings import Settings
from replaycheck.replay.store import groups_done
from replaycheck.say import Say
from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.result import Finding, Result
from replaycheck.subjects.choose import LAB

from .across import COLUMNS, across
from .codes import broader, lookup
from .examine import examine
from .explain import UNKNOWN, Explanation, explain
from .shrink.choose import choose, failing_cells

__all__ = ["deeper", "joined"]


def deeper(settings: Settings, run: Run, say: Say) -> Callable[[Result, Sequence[Finding]], tuple[Finding, ...]]:
    """From a result and the findings of its tables to all findings. A run whose exact cells are right costs nothing."""

    def find(result: Result, found: Sequence[Finding]) -> tuple[Finding, ...]:
        if settings.subject != LAB or not settings.explain or not failing_cells(result):
            return tuple(found)
        say("explaining the first failing case")
        try:
            case, _ = choose(settings, run, result)
            name = Cell(effect=Effect.EXACT, reference=case.reference.name, candidate=case.candidate.name).name
            everywhere = across(name, _pairs(run))
            said = explain(replace(examine(case), share=everywhere.share))
        except ReplayCheckError as error:
            say(f"not explained: {error}")
            return tuple(found)
        where = f"{case.candidate.name}, group {case.group.group}"
        lines = tuple(everywhere.lines())
        return joined(found, said, where, settings.reproduce, lines) if said else tuple(found)

    return find


def _pairs(run: Run) -> Iterator[pd.DataFrame]:
    for part in sorted(groups_done(run)):
        yield read_part(run, "pairs", part, COLUMNS).to_pandas()


UNEXPLAINED = "RC102"
"""What the tables say of a state error that they can't explain."""


def joined(
    found: Sequence[Finding], said: Explanation, where: str, reproduce: str, everywhere: tuple[str, ...] = ()
) -> tuple[Finding, ...]:
    """The findings with the explanation of one case: it stands for more general ones and for what the tables couldn't
    explain, and adds to one of its own code.

    An unknown cause is said only where the tables know none either. ``everywhere``: evidence from all traces of the cell.
    """
    if said.code == UNKNOWN and found:
        return tuple(found)
    general = {UNEXPLAINED, *broader(said.code)[1:]} if said.code != UNKNOWN else set()
    same = next((finding for finding in found if finding.code == said.code), None)
    lines = (where, *said.evidence, *everywhere)
    mine = Finding(
        code=said.code,
        title=lookup(said.code).title,
        sentence=f"{same.sentence} {said.sentence}" if same else said.sentence,
        evidence=(*same.evidence, *lines) if same else lines,
        reproduce=reproduce,
        confidence=said.confidence,
        excluded=said.excluded,
        place=said.named.where if said.named else same.place if same else None,
    )
    others = [finding for finding in found if finding.code not in general | {said.code}]
    return tuple(sorted((*others, mine), key=lambda finding: finding.code))
