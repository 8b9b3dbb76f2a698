"""What a diagnosis may look at: the parts of a result, and the table of restores."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from replaycheck.schema.gaps import StateDtype, Where
from replaycheck.schema.result import ArmResult, AuditResult, CellResult, Finding, GateResult, ProbeResult

from .codes import lookup

__all__ = ["Evidence"]


@dataclass(frozen=True)
class Evidence:
    """``restores`` has the columns of :data:`replaycheck.schema.tables.RESTORES`; an empty frame means not seen."""

    arms: tuple[ArmResult, ...]
    cells: tuple[CellResult, ...]
    probes: tuple[ProbeResult, ...]
    audits: tuple[AuditResult, ...]
    gates: tuple[GateResult, ...]
    restores: pd.DataFrame
    reproduce: str  # the command line that repeats this run
    state_dtype: StateDtype | None = None

    @property
    def arm(self) -> dict[str, ArmResult]:
        return {arm.name: arm for arm in self.arms}

    def finding(self, code: str, sentence: str, lines: list[str], place: Where | None = None) -> Finding:
        """A finding of ``code`` with its title from the table; at most ten lines of evidence are kept.

        ``sentence`` is read after the title and doesn't say it again. ``place``: where it shows first.
        """
        kept = lines if len(lines) <= 10 else [*lines[:9], f"and {len(lines) - 9} more"]
        return Finding(
            code=code,
            title=lookup(code).title,
            sentence=sentence,
            evidence=tuple(kept),
            reproduce=self.reproduce,
            place=place,
        )
