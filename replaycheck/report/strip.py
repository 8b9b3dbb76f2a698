"""Token strips: a window of an answer, token by token, coloured by |Δ log p|, with both arms' tokens where they differ.

As coverage colours lines. Tokens of imported traces stay hidden; sizes and margins are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from replaycheck.compare.columns import names
from replaycheck.schema.frames import to_frame
from replaycheck.schema.result import CellResult, Result

from .matrix import level
from .paths import Spot
from .streams import forced
from .text import number

__all__ = ["OBSERVATION_COLUMNS", "PAIR_COLUMNS", "Box", "Strip", "anchor", "strips"]

BEFORE, AFTER = 12, 28
"""Scored tokens round the place: what led to it, and what it did to the rest; about three lines on a page."""

PAIR_COLUMNS = (
    "cell",
    "experiment",
    "trace",
    "branch",
    "turn",
    "position",
    "dlogp",
    "flip",
    "margin",
    "offset_from_restore",
)
OBSERVATION_COLUMNS = ("arm", "experiment", "trace", "branch", "turn", "position", "token", "top1")


@dataclass(frozen=True)
class Box:
    """One token. ``said``: the two arms' most likely tokens where they differ, reference first."""

    text: str
    said: tuple[str, str] | None
    position: int
    size: str
    margin: str
    level: int
    here: bool
    raw: float | None  # |Δ log p|, nat


@dataclass(frozen=True)
class Strip:
    """The tokens round one spot, as both arms saw them."""

    spot: Spot
    effect: str
    reference: str
    candidate: str
    restore: int | None  # tokens covered by the restored state
    boxes: tuple[Box, ...]


def anchor(code: str, trace: str, turn: int) -> str:
    """A name for a link, such as ``RC110-trace-17-turn-3``."""
    trace = re.sub(r"[^A-Za-z0-9._-]", "-", trace)
    return f"{code}-{trace if trace.startswith('trace') else f'trace-{trace}'}-turn-{turn}"


def strips(
    result: Result,
    spots: Sequence[Spot],
    pairs: Iterable[pa.Table],
    observations: Iterable[pa.Table],
    show: Callable[[object], str],
) -> list[Strip]:
    """One a spot, in their order; ``show`` gives a token's text, or what stands for it where tokens are hidden."""
    cells = {cell.name: cell for cell in result.cells}
    known = [spot for spot in spots if spot.cell in cells]
    mine = _taken(pairs, "cell", {spot.cell for spot in known}, {spot.trace for spot in known})
    arms = {arm for spot in known for arm in (cells[spot.cell].reference, cells[spot.cell].candidate)}
    seen = _taken(observations, "arm", arms, {spot.trace for spot in known})
    return [_strip(cells[spot.cell], spot, mine, seen, show) for spot in known]


def _taken(blocks: Iterable[pa.Table], by: str, wanted: set[str], traces: set[str]) -> pd.DataFrame:
    """Forced rows of these cells or arms, and of these traces."""
    kept = []
    for block in map(forced, blocks):
        of, trace = names(block[by]), names(block["trace"])
        first = np.isin(of.code, [of.named(name) for name in wanted & set(of.of)])
        second = np.isin(trace.code, [trace.named(name) for name in traces & set(trace.of)])
        kept.append(to_frame(block.take(np.flatnonzero(first & second))))
    return (
        pd.concat(kept, ignore_index=True)
        if kept
        else pd.DataFrame(columns=[by, "trace", "branch", "turn", "position"])
    )


def _strip(
    cell: CellResult, spot: Spot, pairs: pd.DataFrame, seen: pd.DataFrame, show: Callable[[object], str]
) -> Strip:
    rows = _at(pairs[pairs["cell"] == cell.name], spot)
    middle = int(rows["position"].searchsorted(spot.position)) if len(rows) else 0
    rows = rows.iloc[max(0, middle - BEFORE) : middle + AFTER + 1]
    tokens = [_at(seen[seen["arm"] == arm], spot).set_index("position") for arm in (cell.reference, cell.candidate)]
    boxes = tuple(_box(row, spot, tokens, show) for row in rows.to_dict("records"))
    offset = rows["offset_from_restore"].dropna() if len(rows) else pd.Series(dtype=float)
    restore = int(rows.loc[offset.index[0], "position"] - offset.iloc[0]) if len(offset) else None
    return Strip(spot, cell.effect, cell.reference, cell.candidate, restore, boxes)


def _at(rows: pd.DataFrame, spot: Spot) -> pd.DataFrame:
    """Of one turn of one branch, by position."""
    of = (rows["trace"] == spot.trace) & (rows["branch"] == spot.branch) & (rows["turn"] == spot.turn)
    return rows[of].sort_values("position")


def _box(row: Mapping[str, Any], spot: Spot, tokens: list[pd.DataFrame], show: Callable[[object], str]) -> Box:
    position = int(row["position"])
    at = [of.loc[position] if position in of.index else None for of in tokens]
    forced_, tops = at[0], [None if each is None else each["top1"] for each in at]
    size = None if pd.isna(row["dlogp"]) else abs(float(row["dlogp"]))
    differ = not pd.isna(row["flip"]) and bool(row["flip"])
    return Box(
        show(None if forced_ is None else forced_["token"]),
        (show(tops[0]), show(tops[1])) if differ else None,
        position,
        number(size),
        number(None if pd.isna(row["margin"]) else float(row["margin"])),
        level(size),
        position == spot.position,
        size,
    )
