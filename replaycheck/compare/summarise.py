"""From the tables of a run to one CellResult a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from replaycheck.schema.arm import Cell, Compiler
from replaycheck.schema.frames import empty_frame
from replaycheck.schema.result import ArmResult, CellResult, Estimate
from replaycheck.stats.clusters import cluster_means, trace_means
from replaycheck.stats.intervals import cluster_t
from replaycheck.stats.quantiles import quantiles

from .divergence import KINDS

__all__ = ["divergence_numbers", "position_numbers", "summarise"]

NOT_SEEN = Estimate(value=None, n=0, method="not seen")


def summarise(
    cells: Sequence[Cell],
    pairs: pd.DataFrame,
    restores: pd.DataFrame,
    divergences: pd.DataFrame,
    arms: Mapping[str, ArmResult],
) -> tuple[CellResult, ...]:
    """The results of ``cells``, in their order; of the forced experiment. ``arms``: by name, those of every cell."""
    of_pairs = _by_cell("pairs", pairs[pairs["experiment"] == "forced"])
    of_restores, of_divergences = _by_cell("restores", restores), _by_cell("divergences", divergences)
    return tuple(
        _cell(cell, of_pairs[cell.name], of_restores[cell.name], of_divergences[cell.name], arms) for cell in cells
    )


class _Frames(dict[str, pd.DataFrame]):
    """Frames by cell; a cell without rows has an empty one."""

    def __init__(self, table: str) -> None:
        super().__init__()
        self.table = table

    def __missing__(self, cell: str) -> pd.DataFrame:
        return empty_frame(self.table)


def _by_cell(table: str, frame: pd.DataFrame) -> _Frames:
    frames = _Frames(table)
    frames.update({str(name): rows for name, rows in frame.groupby("cell")})
    return frames


def _cell(
    cell: Cell,
    pairs: pd.DataFrame,
    restores: pd.DataFrame,
    divergences: pd.DataFrame,
    arms: Mapping[str, ArmResult],
) -> CellResult:
    why = _why_vacuous(cell, pairs, arms)
    fields = position_numbers(pairs) | divergence_numbers(divergences) | _restore_numbers(restores)
    return CellResult(
        name=cell.name,
        effect=cell.effect,
        reference=cell.reference,
        candidate=cell.candidate,
        vacuous=bool(why),
        why_vacuous=why,
        **fields,
    )


def _why_vacuous(cell: Cell, pairs: pd.DataFrame, arms: Mapping[str, ArmResult]) -> str:
    """DESIGN §7: a warm arm without a proven hit, or no position at all."""
    for name in (cell.reference, cell.candidate):
        if arms[name].compiler is Compiler.WARM and not arms[name].proven_hits:
            return f"the arm {name} restored nothing that it could prove"
    return "no position was compared" if pairs.empty else ""


def position_numbers(pairs: pd.DataFrame) -> dict[str, Any]:
    """The fields of a CellResult that PAIRS rows of one cell decide."""
    size = pairs["dlogp"].abs()
    finite = np.isfinite(size.to_numpy(np.float64))
    seen = pairs[np.isfinite(pairs["kl"].to_numpy(np.float64))]
    flips = pairs[pairs["flip"]]
    restored = pairs[pairs["offset_from_restore"].notna()]
    return {
        "traces": int(pairs["trace"].nunique()),
        "positions": len(pairs),
        "restores": len(restored[["trace", "branch", "turn"]].drop_duplicates()),
        "bits_differ": int((~pairs["bits_equal"]).sum()),
        "not_finite": int((~finite).sum()),
        "abs_dlogp": quantiles(size.to_numpy(np.float64)[finite]),
        "worst_trace_abs_dlogp": _worst_trace(size[finite], pairs["trace"][finite]),
        "kl_mean": _mean_over_clusters(seen),
        "kl_max": _largest(seen["kl"]),
        "flips": len(flips),
        "flip_margin_max": _largest(flips["margin"]),
    }


def _worst_trace(size: pd.Series, traces: pd.Series) -> Estimate:
    means = trace_means(size, traces)
    if means.empty:
        return NOT_SEEN
    return Estimate(value=float(means.max()), n=len(means), method="largest of the trace means")


def _mean_over_clusters(pairs: pd.DataFrame) -> Estimate:
    if pairs.empty:
        return NOT_SEEN
    means = cluster_means(pairs["kl"], pairs["trace"], pairs["cluster"])
    interval = cluster_t(means)
    low, high = interval if interval else (None, None)
    return Estimate(value=float(means.mean()), n=len(means), method="cluster-t, 95 %", low=low, high=high)


def _largest(values: pd.Series) -> float | None:
    """The largest finite value; None without one."""
    numbers = values.to_numpy(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return float(numbers.max()) if len(numbers) else None


def divergence_numbers(divergences: pd.DataFrame) -> dict[str, Any]:
    branches = len(divergences[["trace", "branch"]].drop_duplicates())
    diverged = divergences[~divergences["censored"]]
    by_kind = {kind: diverged[diverged["kind"] == kind] for kind in KINDS}
    first = {kind: rows["offset_from_restore"].min() for kind, rows in by_kind.items()}
    return {
        "diverged_branches": {"all": branches} | {kind: len(rows) for kind, rows in by_kind.items()},
        "first_divergence": {kind: None if pd.isna(offset) else int(offset) for kind, offset in first.items()},
    }


def _restore_numbers(restores: pd.DataFrame) -> dict[str, Any]:
    unequal = restores[~restores["conv_equal"]]
    return {
        "state_rel_error": _largest(restores["rel_error"]),
        "restore_max_error": _largest(restores["max_error"]),
        "conv_unequal": len(unequal[["trace", "restore"]].drop_duplicates()),
    }
