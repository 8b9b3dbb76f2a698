"""A bench as text: where it ran, figures in columns, then a line for each target, met or missed and by how much."""

from __future__ import annotations

from replaycheck.schema.bench import Bench, Figure, Target
from replaycheck.text import aligned

_HEAD = ("what", "quantity", "median", "lowest", "highest", "unit", "runs")
_NUMBERS = frozenset({2, 3, 4, 6})
"""Columns that are set to the right."""


def bench_text(bench: Bench) -> str:
    """The whole, ending with a newline."""
    lines = [_where(bench), *aligned([_HEAD, *map(_row, bench.figures)], _NUMBERS)]
    lines += ["", *map(target_line, bench.targets)] if bench.targets else []
    lines += ["", *(f"note: {note}" for note in bench.notes)] if bench.notes else []
    return "\n".join(lines) + "\n"


def target_line(target: Target) -> str:
    """``met`` or ``missed`` with what was wanted, what was found and how far apart they are."""
    sign = "≥" if target.at_least else "≤"
    wanted, found = (f"{number(x)} {target.unit}" for x in (target.wanted, target.found))
    if target.met:
        return f"met: {target.name}: {found} (wanted {sign} {wanted})"
    apart = abs(target.found - target.wanted)
    return f"missed by {number(apart)} {target.unit}: {target.name}: {found} (wanted {sign} {wanted})"


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value and abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def _where(bench: Bench) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in bench.versions.items() if version)
    settings = ", ".join(f"{name} {value}" for name, value in bench.settings.items())
    return f"bench {bench.kind} on {bench.device} ({bench.device_name})\n{versions}\n{settings}"


def _row(each: Figure) -> tuple[str, ...]:
    numbers = [number(x) for x in (each.median, each.lowest, each.highest)]
    return (each.subject, each.quantity, *numbers, each.unit, str(each.runs))
