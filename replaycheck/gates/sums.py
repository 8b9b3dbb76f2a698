"""One number a trace, cell by cell, from PAIRS rows in one pass: what gates on differences are made of.

A part of a run holds whole traces, so a trace is finished with its part. Memory: about 100 bytes a trace and cell, and 24 a
flip; the rows themselves are gone. A position without a finite difference (a NaN, an infinity) counts as
:data:`LARGEST`, so that it can't hide in a mean; one of which a subject said nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import Names, flags, floats, names, unsaid
from replaycheck.compare.restores import LARGEST
from replaycheck.stats.reduction import WINDOW

from .tables import Tables

__all__ = ["CellTraces", "abs_dlogp", "cell_values", "sum_traces"]

Ints = NDArray[np.int64]
Wide = NDArray[np.float64]

COLUMNS = ("cell", "experiment", "cluster", "trace", "dlogp", "flip", "margin", "bits_equal", "offset_from_restore")


@dataclass(frozen=True)
class CellTraces:
    """One cell. All but the last are arrays [traces]; |Δ log p| in nat.

    Attributes:
        cluster: codes of the clusters that traces are joined to.
        window: mean over the positions under WINDOW tokens after a restore; NaN for a trace that has none.
        flip_margin: [flips] the reference's margin at positions with another top-1 token.
    """

    traces: tuple[str, ...]
    cluster: Ints
    positions: Ints
    bits_differ: Ints
    mean: Wide
    spread: Wide  # root mean square
    window: Wide
    flip_margin: Wide


@dataclass(frozen=True)
class _Part:
    """Sums of one block by cell and trace [groups]."""

    cell: Names
    trace: Names
    cluster: Names
    n: Wide
    total: Wide
    squares: Wide
    window_n: Wide
    window_total: Wide
    differ: Wide
    flip_group: Ints
    flip_margin: Wide


def sum_traces(tables: Tables, experiment: str = "forced") -> dict[str, CellTraces]:
    """By cell, of one experiment."""
    parts = [_sum(block) for block in _blocks(tables, COLUMNS, experiment)]
    found: dict[str, list[tuple[_Part, Ints]]] = {}
    for part in parts:
        for code, name in enumerate(part.cell.of):
            groups = np.flatnonzero(part.cell.code == code)
            if len(groups):
                found.setdefault(name, []).append((part, groups))
    return {name: _joined(mine) for name, mine in sorted(found.items())}


def cell_values(tables: Tables, cell: str, experiment: str = "forced") -> tuple[Wide, list[str]]:
    """|Δ log p| [positions] of one cell, and the cluster of each."""
    values, clusters = [np.empty(0)], list[str]()
    for block in _blocks(tables, ("cell", "experiment", "cluster", "dlogp", "bits_equal"), experiment):
        of = names(block["cell"])
        rows = np.flatnonzero(of.code == of.named(cell))
        if len(rows):
            mine = names(block["cluster"])
            values.append(abs_dlogp(block)[rows])
            clusters += [mine.of[code] for code in mine.code[rows]]
    return np.concatenate(values), clusters


def abs_dlogp(pairs: pa.Table) -> Wide:
    """[rows] nat."""
    size = np.abs(floats(pairs["dlogp"]))
    return np.where(np.isfinite(size), size, LARGEST)


def _blocks(tables: Tables, columns: tuple[str, ...], experiment: str) -> Iterator[pa.Table]:
    for block in tables.blocks("pairs", columns):
        kind = names(block["experiment"])
        mine = (kind.code == kind.named(experiment)) & ~unsaid(block)
        if mine.all():
            yield block
        elif mine.any():
            yield block.take(np.flatnonzero(mine))


def _sum(pairs: pa.Table) -> _Part:
    cell, trace, cluster = (names(pairs[name]) for name in ("cell", "trace", "cluster"))
    key, first, at = np.unique(cell.code * len(trace.of) + trace.code, return_index=True, return_inverse=True)
    size, offset = abs_dlogp(pairs), floats(pairs["offset_from_restore"])
    inside = (offset >= 0) & (offset < WINDOW)
    differ = ~flags(pairs["bits_equal"], unseen=True)
    flip = np.flatnonzero(flags(pairs["flip"]))

    def add(rows: NDArray[np.bool_] | None = None, weights: Wide | None = None) -> Wide:
        mine, heavy = (at, weights) if rows is None else (at[rows], None if weights is None else weights[rows])
        return np.bincount(mine, heavy, minlength=len(key)).astype(np.float64)

    return _Part(
        cell[first],
        trace[first],
        cluster[first],
        n=add(),
        total=add(weights=size),
        squares=add(weights=size**2),
        window_n=add(inside),
        window_total=add(inside, size),
        differ=add(differ),
        flip_group=at[flip].astype(np.int64),
        flip_margin=np.nan_to_num(floats(pairs["margin"])[flip], nan=LARGEST, posinf=LARGEST),
    )


def _joined(parts: list[tuple[_Part, Ints]]) -> CellTraces:
    """The groups of one cell in all parts."""

    def of(name: str) -> Wide:
        return np.concatenate([getattr(part, name)[groups] for part, groups in parts])

    traces = [part.trace.of[code] for part, groups in parts for code in part.trace.code[groups]]
    clusters = [part.cluster.of[code] for part, groups in parts for code in part.cluster.code[groups]]
    code = {name: at for at, name in enumerate(dict.fromkeys(clusters))}
    n, window_n = of("n"), of("window_n")
    with np.errstate(invalid="ignore"):
        window = of("window_total") / window_n
    return CellTraces(
        traces=tuple(traces),
        cluster=np.array([code[name] for name in clusters], np.int64),
        positions=n.astype(np.int64),
        bits_differ=of("differ").astype(np.int64),
        mean=of("total") / n,
        spread=np.sqrt(of("squares") / n),
        window=window,
        flip_margin=np.concatenate([part.flip_margin[np.isin(part.flip_group, groups)] for part, groups in parts]),
    )
