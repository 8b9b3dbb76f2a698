"""Inline SVG whose colours follow the page: light, dark and print.

matplotlib draws with marker colours; they are replaced by CSS variables afterwards. The same data give the same bytes
(fixed hash salt, no date), and text stays text, so a chart can be searched and takes the page's font.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, NullFormatter

__all__ = ["POINTS", "SERIES", "Chart", "Sheet", "sheet"]

#: Colours that stand for CSS variables. Each series has its own dash, too, so that colour alone never tells them apart.
_VARIABLES = {"#010101": "var(--ink)", "#020202": "var(--grid)"} | {f"#0{i}0a0a": f"var(--s{i})" for i in range(1, 8)}
INK, GRID = "#010101", "#020202"
_DASHES = (
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (1, 3)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
SERIES = tuple((f"#0{i}0a0a", dash) for i, dash in enumerate(_DASHES, 1))

WIDTH, POINTS = 4.3, 9
"""Inches and points: on a page of 420 px the drawing is 400 px wide, so its text is 11.6 px high."""

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "replaycheck",
    "svg.fonttype": "none",
    "font.size": POINTS,
    "legend.fontsize": POINTS,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.5,
    "grid.color": GRID,
    "legend.frameon": False,
    "path.simplify": True,
} | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)


@dataclass(frozen=True)
class Chart:
    """A drawing, or the reason why there is none, with a title and what to see: a paragraph a line."""

    title: str
    see: str
    svg: Markup | None
    why_empty: str = ""


@dataclass
class Sheet:
    """An axes to draw on; ``svg`` is set when the block of :func:`sheet` ends."""

    axes: Any
    svg: Markup | None = None


@contextmanager
def sheet(name: str, x: str, y: str, height: float = 2.8) -> Iterator[Sheet]:
    """One chart, ``height`` in inches. ``name`` is its label for screen readers."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        drawing = Sheet(figure.add_subplot())
        drawing.axes.set(xlabel=x, ylabel=y)
        yield drawing
        for axis in (drawing.axes.xaxis, drawing.axes.yaxis):
            if axis.get_scale() == "log":
                axis.set_minor_formatter(NullFormatter())
            if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
                axis.set_major_formatter(FuncFormatter(_power))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        drawing.svg = Markup(_inline(buffer.getvalue(), name))


def _power(value: float, _: int) -> str:
    """``10⁻³`` in plain text; matplotlib's own label is TeX, which strings from outside must not reach."""
    digits = str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {"⁰": "1", "¹": "10", "²": "100"}.get(digits, f"10{digits}")


def _inline(document: str, name: str) -> str:
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    # Ids that nothing refers to would repeat from chart to chart.
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{escape(name)}">'
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg, count=1)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    # The page's own background shows through.
    svg = re.sub(r'<path d="[^"]*" style="fill: #ffffff[^"]*"/>', "", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()
