"""The end of a run, of a resumed one and of a merged one: stored parts and probes become a verdict, by one road."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from replaycheck.diagnose.findings import Evidence, findings
from replaycheck.floor.own import own_floors
from replaycheck.gates.load import LoadedGates
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.floor import Floors, Measure
from replaycheck.schema.result import Finding, ProbeResult, Result

from .assemble import RunInfo, assemble, collect, finish
from .store import Run

__all__ = ["Plan", "conclude"]


@dataclass(frozen=True)
class Plan:
    """What a run is to find out, whoever replays its groups. reproduce: the command line that repeats it. floor: given."""

    info: RunInfo
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    gates: tuple[LoadedGates, ...]
    reproduce: str
    floor: Floors | None = None


Deeper = Callable[[Result, Sequence[Finding]], tuple[Finding, ...]]
"""From the findings of the tables to all findings."""


def conclude(
    run: Run,
    plan: Plan,
    probes: Sequence[ProbeResult],
    deeper: Deeper = lambda result, found: tuple(found),
    repeats: Sequence[Measure] = (),
) -> Result:
    """Add up, judge, diagnose, and write divergences.parquet and result.json.

    Args:
        deeper: who can run a case again. repeats: F_run as the run measured it.
    """

    def find(result: Result, restores: pd.DataFrame) -> tuple[Finding, ...]:
        parts = (result.arms, result.cells, result.probes, result.audits, result.gates)
        return deeper(result, findings(Evidence(*parts, restores, plan.reproduce, result.state_dtype)))

    collected = collect(run, plan.arms, plan.cells)
    floor = plan.floor or own_floors(repeats, collected.controls)
    result = assemble(plan.info, collected, probes, plan.gates, find, floor)
    finish(run, result)
    return result
