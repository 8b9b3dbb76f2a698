"""Charts of sizes: how |Δ log p| is spread, and how far restored states are off by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from replaycheck.diagnose.words import pools
from replaycheck.schema.arm import Effect, PoolDtype

from .figure import SERIES, Chart, sheet
from .matrix import EFFECTS
from .streams import Key, LayerErrors, Spread
from .text import number

__all__ = ["distribution", "layer_error"]

SMALLEST = 1e-9
"""Left edge of logarithmic axes, nat. Below it is float64's own noise: differences of log-probabilities near 10 nat."""
RIGHT = 1e3
"""Where curves end, nat; axes are cut before."""
POINTS = 240
"""Points of a drawn curve: more than a chart of 4.3 inches can show apart."""


def distribution(found: Mapping[Key, Spread], pool: PoolDtype) -> Chart:
    """|Δ log p| of all scored positions as cumulative shares, one curve an effect.

    The grid effect doesn't depend on the pool, so its curve is in every chart.
    """
    title = f"|Δ log-probability|, {pool} pool"
    seen = {effect: _spread(found, effect, pool) for effect in EFFECTS}
    lost = sum(spread.broken for spread in seen.values())
    broken = f"{lost:,} positions without a finite difference are left out. " if lost else ""
    spreads = {effect: spread for effect, spread in seen.items() if spread.count}
    if not spreads:
        return Chart(title, "", None, f"{broken}No position was compared with a {pool} pool.")
    with sheet(title, "|Δ log p|, nat (left edge: exactly 0)", "share of positions, %") as drawing:
        right = 1.0
        for (colour, dash), (effect, spread) in zip(SERIES, spreads.items(), strict=False):
            x, y = _cumulative(spread)
            right = max(right, *x[:-1])
            label = f"{effect} (n = {spread.count:,})"
            drawing.axes.step(x, y, where="post", color=colour, ls=dash, lw=1.6, label=label)
        drawing.axes.set(xscale="log", ylim=(0, 103), xlim=(SMALLEST, right))
        # Outside: with four effects there is a curve in every corner.
        drawing.axes.figure.legend(loc="outside upper center", ncols=2)
    return Chart(title, broken + _see_distribution(spreads), drawing.svg)


def _spread(found: Mapping[Key, Spread], effect: Effect, pool: PoolDtype) -> Spread:
    """Of one effect in one pool dtype; of the grid effect in all."""
    mine = Spread()
    for (each, dtype), spread in found.items():
        if each is effect and (dtype is pool or effect is Effect.GRID):
            mine.merge(spread)
    return mine


def _cumulative(spread: Spread) -> tuple[np.ndarray, np.ndarray]:
    """Edges on a log axis, and the percentages below them; a curve starts at its share of what is under the left edge."""
    edges, below = spread.cumulative()
    left = int(np.searchsorted(edges, SMALLEST, side="right"))
    start = int(below[left - 1]) if left else spread.zeros
    shown = edges[left:], below[left:]
    picked = np.unique(np.linspace(0, max(0, len(shown[0]) - 1), min(POINTS, len(shown[0]))).astype(int))
    x = np.concatenate([[SMALLEST], shown[0][picked], [RIGHT]])
    reached = np.concatenate([[start], shown[1][picked], [spread.count]])
    return x, reached * (100 / spread.count)


def _see_distribution(spreads: Mapping[Effect, Spread]) -> str:
    said = []
    if Effect.EXACT in spreads:
        moved = 1 - spreads[Effect.EXACT].zeros / spreads[Effect.EXACT].count
        said.append(
            f"The exact curve should be flat at 100 %; here {100 * moved:.3g} % of the positions moved."
            if moved
            else "The exact curve is flat at 100 %: no position moved at all."
        )
    if Effect.TOTAL in spreads and Effect.GRID in spreads:
        medians = [spreads[effect].quantile(0.5) for effect in (Effect.TOTAL, Effect.GRID)]
        said.append(
            f"What a user sees (total, median {number(medians[0])} nat) is to be read beside other cuts alone "
            f"(grid, median {number(medians[1])} nat): curves that lie together mean rounding of the same size."
        )
    return " ".join(said)


def layer_error(found: Mapping[PoolDtype, Mapping[int, LayerErrors]]) -> Chart:
    """Relative error of restored states against the live state, by layer, beside what one direct cast costs."""
    title = "Error of restored states, split vs warm"
    if not found:
        return Chart(title, "", None, "No state was restored in a split-against-warm comparison.")
    zero = {pool for pool, by in found.items() if max(each.largest for each in by.values()) == 0}
    drawn = {pool: found[pool] for pool in PoolDtype if pool in found and pool not in zero}
    said = f"Exactly 0 in every layer: {pools(zero)}. " if zero else ""
    if not drawn:
        return Chart(title, "", None, f"{said}Nothing to draw.")
    layers = sorted({layer for by in found.values() for layer in by})
    smallest = min(each.smallest_positive for by in drawn.values() for each in by.values())
    with sheet(title, "model layer", "relative error (Frobenius)") as drawing:
        for at, (pool, by) in enumerate(drawn.items()):
            _draw_errors(drawing.axes, by, layers, at, pool)
        drawing.axes.set(yscale="log", xticks=range(len(layers)), ylim=(smallest / 4, None))
        drawing.axes.set_xticklabels([str(layer) for layer in layers])
        drawing.axes.legend(loc="upper center", bbox_to_anchor=(0.45, 1.32), ncols=2, columnspacing=1)
    see = (
        f"{said}A state on its dash was cast once (a cast to fp32 is exact and has no dash). Above it: several casts, as "
        "each decoded token is a store in a reduced pool; near 1: another state. Lines reach from the smallest error on."
    )
    return Chart(title, see, drawing.svg)


def _draw_errors(axes: Any, by: Mapping[int, LayerErrors], layers: list[int], at: int, pool: PoolDtype) -> None:
    """Worst state and range of each layer, and a dash where one cast would put the worst state."""
    colour, mine = SERIES[at][0], [by[layer] for layer in sorted(by)]
    x = np.array([layers.index(layer) for layer in sorted(by)]) + (at - 1) * 0.22
    low, high = np.array([each.smallest for each in mine]), np.array([each.largest for each in mine])
    cast = np.array([each.one_cast for each in mine])
    axes.vlines(x, low.clip(min=SMALLEST), high, color=colour, lw=1.2)
    count = sum(each.states for each in mine)
    axes.plot(x, high, "os^"[at], color=colour, ms=4.5, ls="none", label=f"{pool}: largest (n = {count:,})")
    if cast.max() > 0:
        axes.plot(x, cast, "_", color=colour, ms=16, mew=1.4, ls="none", label=f"{pool}: one cast")
