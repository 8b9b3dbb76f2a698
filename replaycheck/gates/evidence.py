"""What a gate may look at: the parts of a result, and counts of conv states. Nothing of it needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from replaycheck.compare.conv_sums import ConvCount
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.floor import Floors
from replaycheck.schema.gaps import StateDtype
from replaycheck.schema.gate import Scope
from replaycheck.schema.result import ArmResult, AuditResult, CellResult, ProbeResult, Result

from .sums import CellTraces, sum_traces
from .tables import InMemory, Tables

__all__ = ["Evidence"]


@dataclass(frozen=True)
class Evidence:
    """``conv``: conv states by cell, layer and dtype. ``tables``: read when the first gate asks for them."""

    arms: tuple[ArmResult, ...]
    cells: tuple[CellResult, ...]
    probes: tuple[ProbeResult, ...]
    audits: tuple[AuditResult, ...]
    conv: tuple[ConvCount, ...]
    traces: int  # that the run replayed
    floor: Floors | None = None
    tables: Tables = field(default_factory=InMemory)
    precision: str = "fp32"  # of log-probabilities
    state_dtype: StateDtype | None = None  # of a subject that was asked for one
    _sums: dict[str, dict[str, CellTraces]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, result: Result, conv: tuple[ConvCount, ...], tables: Tables) -> Evidence:
        """The evidence of a finished run."""
        seen = result.arms, result.cells, result.probes, result.audits, conv, result.summary.traces, result.floor
        return cls(*seen, tables, result.logprobs.precision or "fp64", result.state_dtype)

    def sums(self, scope: Scope) -> dict[str, CellTraces]:
        """One number a trace, by cell, of the scope's experiment. The tables are read once."""
        experiment = scope.experiment or "forced"
        if experiment not in self._sums:
            self._sums[experiment] = sum_traces(self.tables, experiment)
        return self._sums[experiment]

    @cached_property
    def arm(self) -> dict[str, ArmResult]:
        """By name."""
        return {arm.name: arm for arm in self.arms}

    def cells_in(self, scope: Scope) -> tuple[CellResult, ...]:
        """Cells of the scope's effect whose candidate has one of its pools."""
        return tuple(
            cell
            for cell in self.cells
            if scope.effect in (None, cell.effect) and self._pool_in(scope, self.arm[cell.candidate].pool)
        )

    def warm_arms_in(self, scope: Scope) -> tuple[ArmResult, ...]:
        """Arms that restore, with one of the scope's pools."""
        warm = (arm for arm in self.arms if arm.compiler is Compiler.WARM)
        return tuple(arm for arm in warm if self._pool_in(scope, arm.pool))

    def audits_in(self, scope: Scope) -> Iterator[AuditResult]:
        """Audits of arms with one of the scope's pools."""
        return (audit for audit in self.audits if self._pool_in(scope, self.arm[audit.arm].pool))

    @staticmethod
    def _pool_in(scope: Scope, pool: PoolDtype) -> bool:
        return not scope.pool or pool in scope.pool
