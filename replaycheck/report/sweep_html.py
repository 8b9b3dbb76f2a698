"""sweep.html: one plot to choose from and the table behind it, offline and without scripts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replaycheck.files import write_atomically
from replaycheck.json_files import read_json
from replaycheck.schema.arm import Activation, PoolDtype
from replaycheck.schema.environment import Environment
from replaycheck.schema.sweep import Sweep, SweepRow

from .figure import INK, SERIES, Chart, sheet
from .html import templates
from .sweep_text import HEADINGS, activation_lines, cells, how_many, notes, size
from .text import number
from .views import environment_rows

__all__ = ["sweep_page", "tradeoff", "write_sweep_page"]

_ADVICE = "the file was changed or cut short; run the sweep again"
MARKS = dict(zip(PoolDtype, "os^", strict=True))
SMALL, LARGE = 25.0, 260.0
"""Areas of the marks in square points: still seen, and not yet over their neighbours."""


def write_sweep_page(folder: Path) -> Path:
    """Write sweep.html beside sweep.json and environment.json, and return its path."""
    found = read_json(folder / "sweep.json", Sweep, _ADVICE)
    environment = read_json(folder / "environment.json", Environment, _ADVICE)
    page = folder / "sweep.html"
    write_atomically(page, sweep_page(found, environment).encode("utf-8"))
    return page


def sweep_page(sweep: Sweep, environment: Environment) -> str:
    """The page as text."""
    kinds = list(dict.fromkeys(row.activation for row in sweep.rows))
    return (
        templates()
        .get_template("sweep.html.j2")
        .render(
            sweep=sweep,
            title=how_many(sweep),
            charts=[tradeoff(sweep, activation) for activation in kinds],
            headings=HEADINGS,
            rows=[(row, cells(sweep, row)) for row in sweep.rows],
            several=len(kinds) > 1,
            activations=activation_lines(sweep),
            notes=notes(sweep),
            environment=environment_rows(environment),
            command=shlex.join(environment.command),
        )
    )


def tradeoff(sweep: Sweep, activation: Activation) -> Chart:
    """Tokens computed again against p99 of |Δ log p|; a mark's area is its bytes, a dash what other cuts alone do."""
    rows = [row for row in sweep.rows if row.activation is activation]
    suffix = f", prefill activates {activation}" if len(rows) < len(sweep.rows) else ""
    title = f"What a checkpoint interval costs and changes{suffix}"
    drawn = [row for row in rows if row.hits and row.total.p99 is not None]
    left_out = _left_out(rows, drawn)
    if not drawn:
        return Chart(title, "", None, f"{left_out}Nothing to draw.")
    name = f"{title}: tokens computed again from {_span(row.recomputed for row in drawn)}"
    with sheet(name, "tokens computed again", "p99 of |Δ log p|, cold vs warm, nat", 3.4) as drawing:
        # Charts of two activations share their scales.
        _draw(drawing.axes, drawn, max(row.bytes_stored for row in sweep.rows), _highest(sweep.rows))
    return Chart(title, left_out + _see(drawn), drawing.svg)


def _highest(rows: Sequence[SweepRow]) -> float:
    return max((value for row in rows for value in (row.total.p99, row.grid.p99) if value), default=1e-3)


def _draw(axes: Any, rows: Sequence[SweepRow], most: int, high: float) -> None:
    for (colour, _), pool in zip(SERIES, PoolDtype, strict=False):
        mine = [row for row in rows if row.pool is pool]
        if mine:
            areas = [SMALL + (LARGE - SMALL) * row.bytes_stored / most for row in mine]
            x, y = [row.recomputed for row in mine], [row.total.p99 for row in mine]
            axes.scatter(
                x, y, s=areas, marker=MARKS[pool], facecolors="none", edgecolors=colour, lw=1.6, label=str(pool)
            )
    cuts = {row.recomputed: row.grid.p99 for row in rows}
    axes.scatter(list(cuts), list(cuts.values()), s=150, marker="_", color=INK, lw=1.4, label="other cuts alone")
    for at in cuts:
        same = [row for row in rows if row.recomputed == at]
        text = ", ".join(dict.fromkeys(row.interval for row in same))
        top = max(max(row.total.p99 or 0.0, row.grid.p99 or 0.0) for row in same)
        axes.annotate(text, (at, top), (0, 12), textcoords="offset points", ha="center")
    axes.set(ylim=(-0.06 * high, 1.22 * high))
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.46, 1.17), ncols=4, columnspacing=0.8, handletextpad=0.1)


def _see(rows: Sequence[SweepRow]) -> str:
    """What to look for, with the two ends of the choice."""
    sizes = sorted(row.bytes_stored for row in rows)
    least = min(rows, key=lambda row: (row.recomputed, row.bytes_stored))
    smallest = min(rows, key=lambda row: (row.bytes_stored, row.recomputed))
    ends = f"Fewest tokens again: {_says(least)}. Fewest bytes: {_says(smallest)}."
    if least == smallest:
        ends = f"Fewest tokens again and fewest bytes: {_says(least)}."
    counts = sorted({row.total.positions for row in rows})
    n = " to ".join(f"{count:,}" for count in dict.fromkeys([counts[0], counts[-1]]))
    return (
        f"Left is faster, low is closer to no cache, small is less memory ({size(sizes[0])} to {size(sizes[-1])}). Numbers "
        "are intervals in tokens; end is one checkpoint at a prompt's end. A mark on its dash changes no more than "
        f"other cuts do. Each mark is of {n} scored positions.\n{ends}"
    )


def _says(row: SweepRow) -> str:
    return f"{row.interval} in {row.pool} ({row.recomputed:,} tokens, {size(row.bytes_stored)}, p99 {number(row.total.p99)})"


def _left_out(rows: Sequence[SweepRow], drawn: Sequence[SweepRow]) -> str:
    """Intervals without a hit change nothing, since nothing is restored."""
    missing = list(dict.fromkeys(row.interval for row in rows if row not in drawn))
    return f"Not drawn, since nothing was restored: {', '.join(missing)}. " if missing else ""


def _span(values: Any) -> str:
    found = sorted(values)
    return f"{found[0]:,} to {found[-1]:,}"
