"""Two tables of numbers: what each turn of the conversations shows, and the columns that llama-perplexity prints."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from replaycheck.schema.arm import Effect, PoolDtype

from .matrix import EFFECTS, level
from .streams import Key, Spread, Turns
from .text import number, share

__all__ = ["QUANTILES", "QuantileRow", "TurnCell", "TurnTable", "quantile_rows", "turn_table"]

MOST = 60
"""Turns in the table: the first ones, since every trace has those."""

QUANTILES = {"median": 0.5, "90 %": 0.9, "99 %": 0.99, "99.9 %": 0.999, "max": 1.0}


@dataclass(frozen=True)
class TurnCell:
    """|Δ log p| p99, then what differs; ``level`` on the ramp of the matrix."""

    p99: str
    differ: str
    flips: str
    level: int
    fail: bool


@dataclass(frozen=True)
class TurnTable:
    """Differences by turn: does an error grow with the conversation?"""

    columns: tuple[Key, ...]
    rows: tuple[tuple[int, str, tuple[TurnCell | None, ...]], ...]  # turn, positions of each column, cells
    left_out: int


def turn_table(found: Turns) -> TurnTable:
    """A row a turn. What a user sees and what must be equal are columns; where neither is there, whatever is."""
    chosen = [key for key in found if key[0] in (Effect.TOTAL, Effect.EXACT)] or list(found)
    order, pools = list(EFFECTS), list(PoolDtype)
    columns = tuple(sorted(chosen, key=lambda key: (order.index(key[0]), pools.index(key[1]))))
    turns = sorted({turn for key in columns for turn in found[key]})
    rows = tuple((turn, _positions(found, columns, turn), _cells(found, columns, turn)) for turn in turns[:MOST])
    return TurnTable(columns, rows, len(turns) - len(rows))


def _positions(found: Turns, columns: tuple[Key, ...], turn: int) -> str:
    """``264``, or ``132 to 264`` where columns have different numbers of comparisons."""
    counts = {found[key][turn].count + found[key][turn].broken for key in columns if turn in found[key]}
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def _cells(found: Turns, columns: tuple[Key, ...], turn: int) -> tuple[TurnCell | None, ...]:
    return tuple(_cell(key, found[key][turn]) if turn in found[key] else None for key in columns)


def _cell(key: Key, spread: Spread) -> TurnCell:
    p99, n = spread.quantile(0.99), spread.count + spread.broken
    bad = key[0] is Effect.EXACT and bool(spread.differ)
    return TurnCell(number(p99), share(spread.differ, n), number(spread.flips), level(p99), bad)


@dataclass(frozen=True)
class QuantileRow:
    """One effect's |Δ log p| as text: mean, root mean square, quantiles, and shares that agree."""

    effect: str
    n: str
    mean: str
    rms: str
    quantiles: tuple[str, ...]
    same_top: str
    same_bits: str


def quantile_rows(found: dict[Key, Spread]) -> tuple[QuantileRow, ...]:
    """A row an effect and pool dtype, in the order of the matrix."""
    keys = [(effect, pool) for effect in EFFECTS for pool in PoolDtype if (effect, pool) in found]
    return tuple(_row(key, found[key]) for key in keys if found[key].count)


def _row(key: Key, spread: Spread) -> QuantileRow:
    n = spread.count
    whole = n + spread.broken
    return QuantileRow(
        f"{key[0]}, {key[1]}",
        f"{whole:,}",
        number(spread.total / n),
        number(sqrt(spread.squares / n)),
        tuple(number(spread.quantile(q)) for q in QUANTILES.values()),
        share(whole - spread.flips, whole),
        share(whole - spread.differ, whole),
    )
