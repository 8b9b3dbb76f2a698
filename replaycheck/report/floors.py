"""The floors of a run in a table: what its controls show, which gates and bars are multiples of."""

from __future__ import annotations

from replaycheck.gates.bounds import NAMES
from replaycheck.schema.floor import Measure
from replaycheck.schema.result import Result

from .gate_lines import span
from .text import number, share

__all__ = ["FLOOR_HEADINGS", "floor_rows"]

FLOOR_HEADINGS = (
    "floor", "control", "arms", "traces", "positions", "bits differ", "spread, nat", "p99, nat", "flips",
)  # fmt: skip


def floor_rows(result: Result) -> tuple[tuple[str, ...], ...]:
    """A row a measure; empty where none was taken."""
    return tuple(_row(each) for each in result.floor.measures) if result.floor else ()


def _row(of: Measure) -> tuple[str, ...]:
    return (
        NAMES[of.kind],
        of.control.value,
        f"{of.candidate} against {of.reference}",
        f"{of.traces:,}",
        f"{of.positions:,}",
        share(of.bits_differ, of.positions),
        " ".join(filter(None, (number(of.spread.value), span(of.spread)))),
        number(of.abs_dlogp.get("p99")),
        number(of.flips),
    )
