"""What charts and tables need of a run's rows, gathered block by block: counts and extremes, whatever the number of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import flags, floats, integers, names
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.frames import to_frame
from replaycheck.schema.result import Result

__all__ = [
    "KINDS",
    "PAIR_COLUMNS",
    "Extent",
    "Key",
    "LayerErrors",
    "Spread",
    "Turns",
    "extents",
    "forced",
    "keys",
    "layer_errors",
    "spreads",
    "whole",
]

Key = tuple[Effect, PoolDtype]

Turns = Mapping[Key, Mapping[int, "Spread"]]
"""By effect and pool dtype, then by turn."""

PAIR_COLUMNS = ("cell", "experiment", "turn", "dlogp", "flip", "bits_equal")
"""Of PAIRS, what :func:`spreads` reads."""

KINDS = {"argmax": "other top-1 token", "tolerance": "over tolerance", "bits": "any bit"}
"""From what changes words to what nobody sees; the first kind that happened gives the example."""

_BITS = 43
"""Bits of a float64 that a bin leaves out: 9 of the mantissa stay, so a bin is 0.2 % wide. The drawn line is wider."""


@dataclass
class Spread:
    """How |Δ log p| is spread: counts of bins that are 0.2 % wide, nat.

    Attributes:
        bins: by the leading bits of the value. zeros: values that are exactly 0. broken: values that aren't finite.
        total, squares: sums over finite values. differ, flips: positions with other bits, and with another top-1 token.
    """

    bins: Counter[int] = field(default_factory=Counter)
    zeros: int = 0
    broken: int = 0
    total: float = 0.0
    squares: float = 0.0
    differ: int = 0
    flips: int = 0

    def add(self, size: NDArray[np.float64], differ: int = 0, flips: int = 0) -> None:
        finite = size[np.isfinite(size)]
        above = finite[finite > 0]
        self.broken += len(size) - len(finite)
        self.zeros += len(finite) - len(above)
        self.total += float(above.sum())
        self.squares += float((above**2).sum())
        self.differ += differ
        self.flips += flips
        bins, counts = np.unique(above.view(np.uint64) >> np.uint64(_BITS), return_counts=True)
        self.bins.update(dict(zip(bins.tolist(), counts.tolist(), strict=True)))

    def merge(self, other: Spread) -> None:
        """Take in the values of another."""
        self.bins.update(other.bins)
        for name in ("zeros", "broken", "total", "squares", "differ", "flips"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def count(self) -> int:
        """Finite values."""
        return self.zeros + sum(self.bins.values())

    def cumulative(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Upper edges of the bins, ascending, and how many values lie below each; zeros count."""
        ordered = sorted(self.bins)
        edges = (np.array(ordered, np.uint64) + np.uint64(1)) << np.uint64(_BITS)
        return edges.view(np.float64), self.zeros + np.cumsum([self.bins[each] for each in ordered], dtype=np.int64)

    def quantile(self, q: float) -> float | None:
        """Upper edge of the bin with the value of rank ⌈q·n⌉ (0 if that is 0), so at most 0.2 % too large; None if empty."""
        if not self.count:
            return None
        rank = max(1, math.ceil(q * self.count))
        edges, below = self.cumulative()
        return 0.0 if rank <= self.zeros else float(edges[np.searchsorted(below, rank)])


@dataclass
class LayerErrors:
    """Relative errors of one layer's restored states in one pool dtype."""

    states: int = 0
    smallest: float = np.inf
    smallest_positive: float = np.inf
    largest: float = 0.0
    one_cast: float = 0.0


@dataclass
class Extent:
    """How many branches of an effect and pool parted in one way, and the row of the one that did soonest."""

    branches: int = 0
    happened: int = 0
    soonest: pd.Series | None = None


def keys(result: Result) -> dict[str, Key]:
    """Effect and pool dtype of each cell whose candidate arm is in the result."""
    pool_of = {arm.name: arm.pool for arm in result.arms}
    return {cell.name: (cell.effect, pool_of[cell.candidate]) for cell in result.cells if cell.candidate in pool_of}


def spreads(result: Result, pairs: Iterable[pa.Table]) -> dict[Key, dict[int, Spread]]:
    """By effect and pool dtype, then by turn, from PAIRS blocks with :data:`PAIR_COLUMNS`."""
    known, found = keys(result), dict[Key, dict[int, Spread]]()
    for block in map(forced, pairs):
        cell, turn, size = names(block["cell"]), integers(block["turn"]), np.abs(floats(block["dlogp"]))
        differ, flip = ~flags(block["bits_equal"], unseen=True), flags(block["flip"])
        for code, name in enumerate(cell.of):
            of = cell.code == code
            for number in np.unique(turn[of]) if name in known else ():
                mine = of & (turn == number)
                spread = found.setdefault(known[name], {}).setdefault(int(number), Spread())
                spread.add(size[mine], int(differ[mine].sum()), int(flip[mine].sum()))
    return found


def whole(found: Turns) -> dict[Key, Spread]:
    """All turns of each effect and pool dtype together."""
    merged: dict[Key, Spread] = {}
    for key, turns in found.items():
        into = merged.setdefault(key, Spread())
        for spread in turns.values():
            into.merge(spread)
    return merged


def forced(rows: pa.Table) -> pa.Table:
    """What a free run said is told apart: its positions are fewer and its clock ends where it parts."""
    experiment = names(rows["experiment"])
    return rows.take(np.flatnonzero(experiment.code == experiment.named("forced")))


def layer_errors(result: Result, restores: Iterable[pa.Table]) -> dict[PoolDtype, dict[int, LayerErrors]]:
    """By pool dtype and layer, of state cells (split against warm)."""
    state = {name for name, (effect, _) in keys(result).items() if effect is Effect.STATE}
    found: dict[PoolDtype, dict[int, LayerErrors]] = {}
    for block in restores:
        cell, dtype = names(block["cell"]), names(block["dtype"])
        layer, error, cast = integers(block["layer"]), floats(block["rel_error"]), floats(block["one_cast_error"])
        wanted = np.isin(cell.code, [code for code, name in enumerate(cell.of) if name in state]) & np.isfinite(error)
        for code, name in enumerate(dtype.of):
            for number in np.unique(layer[wanted & (dtype.code == code)]):
                mine = wanted & (dtype.code == code) & (layer == number)
                _widen(
                    found.setdefault(PoolDtype(name), {}).setdefault(int(number), LayerErrors()),
                    error[mine],
                    cast[mine],
                )
    return found


def _widen(into: LayerErrors, error: NDArray[np.float64], cast: NDArray[np.float64]) -> None:
    into.states += len(error)
    into.smallest = min(into.smallest, float(error.min()))
    into.largest = max(into.largest, float(error.max()))
    into.smallest_positive = min(into.smallest_positive, float(error[error > 0].min(initial=np.inf)))
    into.one_cast = max(into.one_cast, float(np.nan_to_num(cast).max()))


def extents(result: Result, divergences: Iterable[pa.Table]) -> dict[Key, Mapping[str, Extent]]:
    """By effect and pool dtype, then by kind, from DIVERGENCES blocks."""
    known, found = keys(result), dict[Key, dict[str, Extent]]()
    for block in map(forced, divergences):
        rows = to_frame(block)
        rows = rows[rows["cell"].isin(known)]
        for (effect, pool, kind), mine in rows.groupby([*_split(rows["cell"].map(known)), "kind"]):
            of = found.setdefault((Effect(effect), PoolDtype(pool)), {name: Extent() for name in KINDS})
            _extend(of[kind], mine)
    return dict(found)


def _split(key: pd.Series) -> tuple[pd.Series, pd.Series]:
    return key.map(lambda each: str(each[0])).rename("effect"), key.map(lambda each: str(each[1])).rename("pool")


def _extend(into: Extent, rows: pd.DataFrame) -> None:
    happened = rows[~rows["censored"].astype(bool)]
    into.branches += len(rows)
    into.happened += len(happened)
    if len(happened):
        before = [] if into.soonest is None else [into.soonest.to_frame().T]
        # Of equal offsets the first by position, cell and trace.
        order = ["offset_from_restore", "position", "cell", "trace"]
        first = happened.sort_values(order, na_position="last").head(1)
        into.soonest = pd.concat([*before, first]).sort_values(order, na_position="last").iloc[0]
