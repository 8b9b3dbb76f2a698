"""A row a trace: how much of it differs and how far, the worst first. From PAIRS, a block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replaycheck.compare.columns import flags, floats, integers, names
from replaycheck.schema.arm import Effect

from .streams import Key, forced

__all__ = ["COLUMNS", "Spot", "TraceRow", "trace_rows"]

COLUMNS = ("cell", "experiment", "trace", "branch", "turn", "position", "dlogp", "flip", "bits_equal")


@dataclass(frozen=True)
class Spot:
    """A scored position under one comparison; ``size``: its |Δ log p|, nat."""

    cell: str
    trace: str
    branch: int
    turn: int
    position: int
    size: float


@dataclass
class TraceRow:
    """Sums of one trace over comparisons of one effect. ``worst``: where |Δ log p| is largest."""

    trace: str
    positions: int = 0
    differ: int = 0
    flips: int = 0
    total: float = 0.0
    worst: Spot | None = None

    @property
    def mean(self) -> float:
        return self.total / self.positions if self.positions else 0.0

    @property
    def badness(self) -> tuple[float, ...]:
        return (self.worst.size if self.worst else 0.0, self.mean, float(self.differ))


def trace_rows(known: Mapping[str, Key], effect: Effect, pairs: Iterable[pa.Table]) -> dict[str, TraceRow]:
    """By trace, from PAIRS blocks with :data:`COLUMNS`. A difference without a finite number is as large as can be."""
    found: dict[str, TraceRow] = {}
    wanted = {name for name, key in known.items() if key[0] is effect}
    for block in map(forced, pairs):
        cell = names(block["cell"])
        rows = block.take(np.flatnonzero(np.isin(cell.code, [cell.named(name) for name in wanted & set(cell.of)])))
        trace, size = names(rows["trace"]), np.abs(floats(rows["dlogp"]))
        differ, flip = ~flags(rows["bits_equal"], unseen=True), flags(rows["flip"])
        for code, name in enumerate(trace.of):
            mine = np.flatnonzero(trace.code == code)
            if len(mine):
                _add(found.setdefault(name, TraceRow(name)), rows, mine, size[mine], differ[mine], flip[mine])
    return found


def _add(
    into: TraceRow, rows: pa.Table, mine: np.ndarray, size: np.ndarray, differ: np.ndarray, flip: np.ndarray
) -> None:
    into.positions += len(mine)
    into.differ += int(differ.sum())
    into.flips += int(flip.sum())
    into.total += float(np.nan_to_num(size, nan=0.0, posinf=0.0).sum())
    # A NaN counts as infinite where bits differ; where the subject said nothing it is no difference.
    ranked = np.where(np.isfinite(size), size, np.where(differ, np.inf, 0.0))
    at = int(ranked.argmax())
    if ranked[at] > 0 and (into.worst is None or ranked[at] > into.worst.size):
        where = rows.slice(int(mine[at]), 1)
        branch, turn, position = (int(integers(where[name])[0]) for name in ("branch", "turn", "position"))
        into.worst = Spot(where["cell"][0].as_py(), into.trace, branch, turn, position, float(ranked[at]))
