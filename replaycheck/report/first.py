"""The first divergence in full, for the terminal: where, after which restore, both tokens, |Δ log p| before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from replaycheck.compare.columns import names
from replaycheck.errors import ReplayCheckError

from .privacy import shows_text
from .saved import Saved, load
from .shown import short
from .streams import extents
from .strip import OBSERVATION_COLUMNS, PAIR_COLUMNS, Box, Strip, strips
from .text import number
from .tokens import glyphs
from .views import examples

__all__ = ["first_divergence"]


def first_divergence(run: Path) -> list[str]:
    """Two sentences on the clearest first divergence of the saved run: of what must be equal, else of what a user sees.

    Nothing where nothing diverged, or where the folder isn't a run (a result that was only judged in memory).
    """
    try:
        saved = load(run)
    except ReplayCheckError:
        return []
    spots = examples(extents(saved.result, saved.blocks("divergences")))
    preferred = sorted(spots, key=lambda spot: _RANK.get(spot.cell.partition("/")[0], len(_RANK)))
    found = strips(
        saved.result,
        preferred[:1],
        saved.blocks("pairs", *PAIR_COLUMNS),
        saved.blocks("observations", *OBSERVATION_COLUMNS),
        glyphs(saved.result.logprobs.vocabulary, shows_text(saved.environment, False)),
    )
    return [line for one in found for line in _lines(saved, one)]


_RANK = {"exact": 0, "total": 1}


@dataclass(frozen=True)
class _Around:
    """The box of the divergence, and the mean |Δ log p| of those before and after it in the window; None: no such box."""

    here: Box | None
    before: float | None
    after: float | None


def _around(one: Strip) -> _Around:
    at = next((at for at, box in enumerate(one.boxes) if box.here), None)
    if at is None:
        return _Around(None, None, None)
    return _Around(one.boxes[at], _mean(one.boxes[:at]), _mean(one.boxes[at + 1 :]))


def _mean(boxes: Iterable[Box]) -> float | None:
    sizes = [box.raw for box in boxes if box.raw is not None]
    return float(np.mean(sizes)) if sizes else None


def _lines(saved: Saved, one: Strip) -> Iterator[str]:
    spot, around = one.spot, _around(one)
    where = f"trace {spot.trace}, branch {spot.branch}, turn {spot.turn}, position {spot.position:,}"
    if one.restore is not None:
        label = _label(saved, one, saved.blocks("restores", "cell", "trace", "restore", "label"))
        written = f" (state written as {label})" if label else ""
        where += f", {spot.position - one.restore:,} tokens after the restore at {one.restore:,}{written}"
    yield f"First divergence, {one.effect} {short(spot.cell)}: {where}."
    if around.here is not None:
        said = around.here.said
        tokens = (
            f"most likely token {said[0]!r} → {said[1]!r}"
            if said
            else f"the same most likely token at {around.here.text!r}"
        )
        sides = [(around.before, "before"), (around.after, "after")]
        means = " and ".join(f"{number(mean)} {side}" for mean, side in sides if mean is not None)
        beside = f", mean {means} it in this answer" if means else ""
        yield (
            f"Tokens: {tokens}, reference margin {around.here.margin} nat; "
            f"|Δ log p| {around.here.size} nat there{beside}."
        )


def _label(saved: Saved, one: Strip, restores: Iterable[pa.Table]) -> str | None:
    """How the restored state had been written; null where the run has no row of the restore."""
    wanted = f"{one.spot.branch}/{one.spot.turn}@{one.restore}"
    for block in restores:
        cell, trace, restore = (names(block[name]) for name in ("cell", "trace", "restore"))
        rows = np.flatnonzero(
            (cell.code == cell.named(one.spot.cell))
            & (trace.code == trace.named(one.spot.trace))
            & (restore.code == restore.named(wanted))
        )
        if len(rows):
            return str(block["label"][int(rows[0])].as_py())
    return None
