"""What cold-vs-warm differences are made of: a bar a warm arm, its length the total, its parts the switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replaycheck.schema.result import Attribution, Result

from .figure import INK, SERIES, Chart, sheet
from .text import number, plural

__all__ = ["AttributionRow", "attribution_chart", "attribution_rows"]

MOST = 12
"""Bars in the chart; the table has every arm."""
_HATCHES = ("", "//", "\\\\", "xx", "--")


@dataclass(frozen=True)
class AttributionRow:
    """One line of the table; steps: the switch and its size in nat, and its share of the mean square."""

    arm: str
    positions: str
    total: str
    steps: tuple[tuple[str, str, str], ...]
    interaction: str


def attribution_rows(result: Result) -> tuple[AttributionRow, ...]:
    """Every warm arm that differs from its cold arm, the largest difference first."""
    return tuple(_row(each) for each in _ordered(result))


def _ordered(result: Result) -> list[Attribution]:
    differ = [each for each in result.attributions if each.total > 0]
    return sorted(differ, key=lambda each: (-each.total, each.candidate))


def _row(of: Attribution) -> AttributionRow:
    steps = tuple((step.switch, number(step.rms), _share(step.square, of)) for step in of.steps)
    return AttributionRow(_name(of), f"{of.positions:,}", number(of.total), steps, _share(of.interaction, of))


def _share(square: float, of: Attribution) -> str:
    return f"{square / of.total**2:.0%}"


def _name(of: Attribution) -> str:
    """The candidate without its compiler."""
    return of.candidate.partition("/")[2]


def _label(of: Attribution) -> str:
    """Its name on two lines, so that half of a narrow chart is left for the bars."""
    parts = _name(of).split("/")
    half = (len(parts) + 1) // 2
    return "\n".join(filter(None, ("/".join(parts[:half]), "/".join(parts[half:]))))


def attribution_chart(result: Result) -> Chart:
    """Mean squares of the steps as parts of a bar; where they cancel, they are longer than the total, which is marked."""
    title = "What cold vs warm is made of, one switch at a time"
    shown = _ordered(result)[:MOST]
    if not shown:
        return Chart(title, "", None, "No warm arm differs from a cold arm of this run, or none has one.")
    switches = list(dict.fromkeys(step.switch for each in shown for step in each.steps if step.square > 0))
    height = 1.6 + 0.36 * len(shown)
    with sheet(title, "mean square of Δ log p, nat²", "", height) as drawing:
        _bars(drawing.axes, shown, switches)
    return Chart(title, _see(shown), drawing.svg)


def _bars(axes: object, shown: Sequence[Attribution], switches: Sequence[str]) -> None:
    left = [0.0] * len(shown)
    for number_, switch in enumerate(switches):
        squares = [sum(step.square for step in each.steps if step.switch == switch) for each in shown]
        colour, _ = SERIES[number_ % len(SERIES)]
        axes.barh(  # type: ignore[attr-defined]
            range(len(shown)),
            squares,
            left=left,
            height=0.62,
            color="none",
            edgecolor=colour,
            hatch=_HATCHES[number_ % len(_HATCHES)],
            linewidth=1.1,
            label=switch,
        )
        left = [a + b for a, b in zip(left, squares, strict=True)]
    totals = [each.total**2 for each in shown]
    axes.plot(totals, range(len(shown)), "|", color=INK, markersize=13, markeredgewidth=2, label="total")  # type: ignore[attr-defined]
    axes.set_yticks(range(len(shown)), [_label(each) for each in shown])  # type: ignore[attr-defined]
    axes.invert_yaxis()  # type: ignore[attr-defined]
    axes.set_xlim(left=0)  # type: ignore[attr-defined]
    axes.locator_params(axis="x", nbins=4)  # type: ignore[attr-defined]
    # Outside, so that the layout keeps room for it whatever the length of the arms' names.
    axes.figure.legend(loc="outside upper center", ncols=2)  # type: ignore[attr-defined]


def _see(shown: Sequence[Attribution]) -> str:
    worst = shown[0]
    largest = max(worst.steps, key=lambda step: step.square)
    return (
        "Parts are the mean squares of each switch, the mark is that of the whole difference; between them lies the "
        f"interaction. Largest: {_name(worst)}, {number(worst.total)} nat (root mean square) over "
        f"{plural(worst.traces, 'trace')}; most of it comes from {largest.switch} ({number(largest.rms)} nat)."
    )
