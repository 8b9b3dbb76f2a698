"""The matrix: one row a way to compute, one column a pool dtype and effect. Plain data for the page and the summary."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.schema.arm import Activation, Effect, PoolDtype
from replaycheck.schema.result import ArmResult, CellResult, Result

from .text import number, share

__all__ = ["EFFECTS", "Column", "Entry", "Matrix", "entry", "level", "matrix"]

#: Left to right: what a user sees, then what it is made of, then the part that must be zero.
EFFECTS: dict[Effect, str] = {
    Effect.TOTAL: "cold vs warm: what you see when the cache is switched on",
    Effect.GRID: "cold vs split: other cuts, other rounding; legitimate, the same for all pools",
    Effect.STATE: "split vs warm: what storing and restoring did, the pool's cast included",
    Effect.EXACT: "split-rounded vs warm: must be the same bits",
    Effect.PARALLEL: "one rank vs several: the order of the sums over ranks; legitimate",
    Effect.ACTIVATION: "cold vs cold: prefill activates beta and decay inside its kernel or before it",
    Effect.TOGETHER: "warm vs warm: one request at a time or several in flight at once; they may not mix their states",
}

RAMP = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
"""Steps of the colour ramp in nat: a decade each, from what nobody sees to what changes words."""


@dataclass(frozen=True)
class Column:
    """``first`` of its pool's columns: where the page draws a line."""

    pool: PoolDtype
    effect: Effect
    first: bool


@dataclass(frozen=True)
class Entry:
    """What a cell shows: a mark, |Δ log p| p99 and the share of positions whose bits differ."""

    cell: str
    mark: str  # fail, same, differs, unsized (the same tokens, and nothing else is known) or vacuous
    p99: str
    bits: str
    level: int  # 0 to 5 on the ramp

    @property
    def word(self) -> str:
        words = {"fail": "FAIL", "same": "same bits", "differs": "", "unsized": "same tokens", "vacuous": "vacuous"}
        return words[self.mark]


@dataclass(frozen=True)
class Row:
    kernels: str
    answers: str
    policy: str
    cells: tuple[tuple[Column, Entry | None], ...]  # a column without a cell wasn't run


@dataclass(frozen=True)
class Matrix:
    """Every cell of a run, pools as columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def pools(self) -> tuple[tuple[PoolDtype, int], ...]:
        """Each pool with the number of its columns."""
        pools = [column.pool for column in self.columns]
        return tuple((pool, pools.count(pool)) for pool in dict.fromkeys(pools))

    @property
    def failing(self) -> bool:
        return any(entry is not None and entry.mark == "fail" for row in self.rows for _, entry in row.cells)


def matrix(result: Result) -> Matrix:
    """Order the cells of ``result``; a cell whose candidate arm isn't in the result is left out."""
    arms = {arm.name: arm for arm in result.arms}
    known = [(cell, arms[cell.candidate]) for cell in result.cells if cell.candidate in arms]
    columns = _columns({(arm.pool, cell.effect) for cell, arm in known})
    failed = {gate.worst for gate in result.gates if gate.verdict == "fail"}
    grouped: dict[tuple[str, str, str], dict[tuple[PoolDtype, Effect], Entry]] = {}
    for cell, arm in known:
        grouped.setdefault(_key(arm), {})[arm.pool, cell.effect] = entry(cell, failed)
    rows = tuple(
        Row(*key, tuple((column, found.get((column.pool, column.effect))) for column in columns))
        for key, found in sorted(grouped.items())
    )
    return Matrix(columns, rows)


def _columns(present: set[tuple[PoolDtype, Effect]]) -> tuple[Column, ...]:
    columns: list[Column] = []
    for pool in PoolDtype:
        effects = [effect for effect in EFFECTS if (pool, effect) in present]
        columns += [Column(pool, effect, effect is effects[0]) for effect in effects]
    return tuple(columns)


def entry(cell: CellResult, failed: set[str]) -> Entry:
    """What the matrix shows of one cell; ``failed``: names of the cells in which a gate fails."""
    p99 = cell.abs_dlogp.get("p99")
    differ = share(cell.bits_differ + cell.unsized_flips, cell.positions)
    return Entry(cell.name, _mark(cell, failed), number(p99), differ, level(p99))


def _key(arm: ArmResult) -> tuple[str, str, str]:
    answers = arm.answers.value if arm.answer == "recurrent" else f"{arm.answers}, answer {arm.answer}"
    ranks = f", {arm.tensor_parallel} ranks" if arm.tensor_parallel > 1 else ""
    activated = "" if arm.activation is Activation.INSIDE else f", activated {arm.activation}"
    padded = f", padded {arm.padding}" if arm.padding else ""
    windows = f", windows by {arm.rollback}" if arm.rollback else ""
    ring = f" ({'lagging ' if arm.ring_lag else ''}ring of {arm.ring})" if arm.ring else ""
    return f"{arm.history}-{arm.tail}{ranks}{activated}{padded}", answers + windows + ring, arm.policy


def _mark(cell: CellResult, failed: set[str]) -> str:
    if cell.vacuous or not cell.positions:
        return "vacuous"
    broken = cell.bits_differ or cell.not_finite or cell.restore_max_error or cell.conv_unequal
    if cell.name in failed or (cell.effect is Effect.EXACT and broken):
        return "fail"
    if cell.missing == cell.positions:
        return "differs" if cell.unsized_flips else "unsized"
    return "differs" if cell.bits_differ or cell.unsized_flips else "same"


def level(p99: float | None) -> int:
    """Its step on the ramp: 0 (nothing to see) to 5."""
    return 0 if p99 is None else sum(p99 > step for step in RAMP)
