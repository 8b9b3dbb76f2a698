"""The charts of the report: distributions, first divergence, and state error by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from replaycheck.diagnose.words import pools
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import Result

from .figure import SERIES, Chart, sheet
from .matrix import EFFECTS
from .text import number

__all__ = ["distribution", "layer_error", "survival"]

SMALLEST = 1e-9
"""Left edge of logarithmic axes, nat. Below it is float64's own noise: differences of log-probabilities near 10 nat."""
RIGHT = 1e3
"""Where curves end, nat; axes are cut before."""
POINTS = 240
"""Points of a drawn curve: more than a chart of 4.8 inches can show apart."""


def distribution(result: Result, pairs: pd.DataFrame, pool: PoolDtype) -> Chart:
    """|Δ log p| of all scored positions as cumulative shares, one curve an effect.

    The grid effect doesn't depend on the pool, so its curve is in every chart.
    """
    title = f"|Δ log-probability|, {pool} pool"
    arms = {arm.name: arm.pool for arm in result.arms}
    effect_of = {
        cell.name: cell.effect
        for cell in result.cells
        if arms.get(cell.candidate) is pool or cell.effect is Effect.GRID
    }
    seen = pairs[["cell", "dlogp"]].assign(effect=pairs["cell"].astype(str).map(effect_of)).dropna(subset=["effect"])
    finite = np.isfinite(seen["dlogp"])
    broken = f"{(~finite).sum():,} positions without a finite difference are left out. " if not finite.all() else ""
    seen = seen[finite]
    if seen.empty:
        return Chart(title, "", None, f"{broken}No position was compared with a {pool} pool.")
    values = {effect: np.abs(seen.loc[seen["effect"] == effect, "dlogp"].to_numpy()) for effect in EFFECTS}
    values = {effect: of for effect, of in values.items() if of.size}
    with sheet(title, "|Δ log p|, nat (left edge: exactly 0)", "share of positions, %") as drawing:
        for (colour, dash), (effect, of) in zip(SERIES, values.items(), strict=False):
            x, y = _cumulative(of)
            drawing.axes.step(x, y, where="post", color=colour, ls=dash, lw=1.6, label=f"{effect} (n = {of.size:,})")
        drawing.axes.set(xscale="log", ylim=(0, 103), xlim=(SMALLEST, max(1.0, *(of.max() for of in values.values()))))
        drawing.axes.legend(loc="lower right" if Effect.EXACT not in values else "center left", fontsize=8)
    return Chart(title, broken + _see_distribution(values), drawing.svg)


def _cumulative(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles on a log axis, and the percentages that they reach; a curve starts at its share of zeros."""
    above = np.sort(values[values >= SMALLEST])
    zeros = values.size - above.size
    picked = np.unique(np.linspace(0, max(0, above.size - 1), min(POINTS, above.size)).astype(int))
    x = np.concatenate([[SMALLEST], above[picked], [RIGHT]])
    reached = np.concatenate([[zeros], zeros + picked + 1, [values.size]])
    return x, reached * (100 / values.size)


def _see_distribution(values: dict[Effect, np.ndarray]) -> str:
    said = []
    if Effect.EXACT in values:
        zero = float((values[Effect.EXACT] == 0).mean())
        said.append(
            "The exact curve is flat at 100 %: no position moved at all."
            if zero == 1
            else f"The exact curve should be flat at 100 %; here {100 * (1 - zero):.3g} % of the positions moved."
        )
    if Effect.TOTAL in values and Effect.GRID in values:
        medians = [np.median(values[effect]) for effect in (Effect.TOTAL, Effect.GRID)]
        said.append(
            f"What a user sees (total, median {number(float(medians[0]))} nat) is to be read beside other cuts alone "
            f"(grid, median {number(float(medians[1]))} nat): curves that lie together mean rounding of the same size."
        )
    return " ".join(said)


def survival(result: Result, divergences: pd.DataFrame) -> Chart:
    """Kaplan-Meier curves of the first other top-1 token, cold against warm, one a pool dtype.

    The clock starts at the first restore: before it, both arms run the same code (statistics.md C.4).
    """
    title = "First other top-1 token, cold vs warm"
    arms = {arm.name: arm.pool for arm in result.arms}
    pool_of = {cell.name: arms.get(cell.candidate) for cell in result.cells if cell.effect is Effect.TOTAL}
    rows = divergences[divergences["kind"].astype(str) == "argmax"]
    rows = rows.assign(pool=rows["cell"].astype(str).map(pool_of)).dropna(subset=["pool", "offset_from_restore"])
    if rows.empty:
        return Chart(title, "", None, "No branch was restored in a cold-against-warm comparison, so no clock started.")
    happened = ~rows["censored"].astype(bool)
    if not happened.any():
        return Chart(title, "", None, f"The top-1 tokens agree to the end of all {len(rows):,} branches.")
    with sheet(title, "tokens since the first restore", "branches still alike, %") as drawing:
        for (colour, dash), pool in zip(SERIES, PoolDtype, strict=False):
            of = rows[rows["pool"] == pool]
            if not of.empty:
                x, y = _kaplan_meier(of)
                drawing.axes.step(x, y, where="post", color=colour, ls=dash, lw=1.6, label=f"{pool} (n = {len(of):,})")
        drawing.axes.set(xscale="log", ylim=(0, 103), xlim=(1, None))
        drawing.axes.legend(loc="lower left", fontsize=8)
    see = (
        f"{happened.sum():,} of {len(rows):,} branches, each in several comparisons, get another top-1 token; the "
        "others are censored at their end. Described, not tested: comparisons share traces."
    )
    return Chart(title, see, drawing.svg)


def _kaplan_meier(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    time, censored = rows["offset_from_restore"].to_numpy(float).clip(1), rows["censored"].to_numpy(bool)
    curve = stats.ecdf(stats.CensoredData(uncensored=time[~censored], right=time[censored])).sf
    return np.concatenate([[1.0], curve.quantiles]), 100 * np.concatenate([[1.0], curve.probabilities])


def layer_error(result: Result, restores: pd.DataFrame) -> Chart:
    """Relative error of restored states against the live state, by layer, beside what one direct cast costs."""
    title = "Error of restored states, split vs warm"
    state = {cell.name for cell in result.cells if cell.effect is Effect.STATE}
    rows = restores[restores["cell"].astype(str).isin(state) & np.isfinite(restores["rel_error"])]
    if rows.empty:
        return Chart(title, "", None, "No state was restored in a split-against-warm comparison.")
    by_pool = {pool: rows[rows["dtype"].astype(str) == pool] for pool in PoolDtype}
    zero = [pool.value for pool, of in by_pool.items() if len(of) and of["rel_error"].max() == 0]
    drawn = {pool: of for pool, of in by_pool.items() if len(of) and pool.value not in zero}
    said = f"Exactly 0 in every layer: {pools({PoolDtype(pool) for pool in zero})}. " if zero else ""
    if not drawn:
        return Chart(title, "", None, f"{said}Nothing to draw.")
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    smallest = min(of.loc[of["rel_error"] > 0, "rel_error"].min() for of in drawn.values())
    with sheet(title, "model layer", "relative error (Frobenius)") as drawing:
        for at, (pool, of) in enumerate(drawn.items()):
            _draw_errors(drawing.axes, of, layers, at, pool)
        drawing.axes.set(yscale="log", xticks=range(len(layers)), ylim=(smallest / 4, None))
        drawing.axes.set_xticklabels([str(layer) for layer in layers])
        drawing.axes.legend(loc="upper center", bbox_to_anchor=(0.45, 1.32), ncols=2, fontsize=8, columnspacing=1)
    see = (
        f"{said}A point on its dash is one direct cast to the pool's dtype (a cast to fp32 is exact and has no dash); "
        "off it, something else happened. A line that reaches the lower edge: other states of the layer have no error."
    )
    return Chart(title, see, drawing.svg)


def _draw_errors(axes: Any, rows: pd.DataFrame, layers: list[int], at: int, pool: PoolDtype) -> None:
    """Worst state and range of each layer, and a dash where one cast would put the worst state."""
    colour, by = SERIES[at][0], rows.groupby("layer")
    x = np.array([layers.index(layer) for layer in by.groups]) + (at - 1) * 0.22
    low, high, cast = by["rel_error"].min(), by["rel_error"].max(), by["one_cast_error"].max()
    axes.vlines(x, low.clip(lower=SMALLEST), high, color=colour, lw=1.2)
    axes.plot(x, high, "os^"[at], color=colour, ms=4.5, ls="none", label=f"{pool}: largest (n = {len(rows):,})")
    if cast.max() > 0:
        axes.plot(x, cast, "_", color=colour, ms=16, mew=1.4, ls="none", label=f"{pool}: one cast")
