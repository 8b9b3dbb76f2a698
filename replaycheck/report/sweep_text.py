"""The table of ``sweep`` as text: what each interval and pool costs, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.sweep import Difference, Sweep, SweepRow
from replaycheck.text import aligned, printable

from .text import number, share

__all__ = ["HEADINGS", "activation_lines", "cells", "how_many", "notes", "size", "sweep_text"]

HEADINGS = (
    "interval",
    "pool",
    "hits",
    "computed again",
    "states",
    "stored",
    "grid p99",
    "grid max",
    "state p99",
    "state max",
    "total p99",
    "total max",
    "flips",
    "first at",
)


def sweep_text(sweep: Sweep) -> str:
    """What was swept, a table for each activation, and how to read it; ends with a newline."""
    lines = [how_many(sweep)]
    for activation in dict.fromkeys(row.activation for row in sweep.rows):
        rows = [row for row in sweep.rows if row.activation is activation]
        lines += [
            "",
            *([f"prefill activates {activation}:"] if len(rows) < len(sweep.rows) else []),
            *_table(sweep, rows),
        ]
    lines += ["", *activation_lines(sweep), *notes(sweep)]
    return "\n".join(printable(line).rstrip() for line in lines) + "\n"


def how_many(sweep: Sweep) -> str:
    """Suite, model and kernels in one line."""
    return (
        f"sweep of suite {sweep.suite}: model {sweep.model}, kernels {sweep.kernels}, recipe {sweep.recipe}, "
        f"{sweep.device}, answers {sweep.answers}"
    )


def notes(sweep: Sweep) -> list[str]:
    """How to read the columns."""
    said = [
        f"Prompts have {sweep.prompts:,} tokens in all; without a cache {sweep.repeated:,} of them "
        f"({share(sweep.repeated, sweep.prompts)}) are computed again.",
        "p99, max: |Δ log p| of scored positions, nat. grid: other cuts alone. state: what the pool's dtype did.",
        "total: cold against warm, what a user sees. first at: tokens from a restore to another top-1 token.",
    ]
    return said + [f"not checked: {line}" for line in sweep.not_checked]


def activation_lines(sweep: Sweep) -> list[str]:
    """What moving the activation alone does."""
    return [
        f"Prefill activated outside against inside, both cold, {row.pool} pool: p99 {_nat(row.difference.p99)}, "
        f"max {_nat(row.difference.max)} nat, {row.difference.flips} flips in {row.difference.positions:,} positions."
        for row in sweep.activations
    ]


def cells(sweep: Sweep, row: SweepRow) -> tuple[str, ...]:
    """The texts of a row, in the order of :data:`HEADINGS`."""
    return (
        row.interval,
        str(row.pool),
        number(row.hits),
        f"{row.recomputed:,} ({share(row.recomputed, sweep.repeated)})",
        number(row.states),
        size(row.bytes_stored),
        *_two(row.grid),
        *_two(row.state),
        *_two(row.total),
        number(row.total.flips),
        number(row.total.first_divergence),
    )


def size(count: int) -> str:
    """Bytes in decimal units.

    >>> size(1_310_720), size(999)
    ('1.31 MB', '999 B')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _two(difference: Difference) -> tuple[str, str]:
    return _nat(difference.p99), _nat(difference.max)


def _nat(value: float | None) -> str:
    return number(value) if value is None or value == 0 or value >= 1e-3 else f"{value:.2e}"


def _table(sweep: Sweep, rows: Sequence[SweepRow]) -> list[str]:
    texts = [HEADINGS, *(cells(sweep, row) for row in rows)]
    return aligned(texts, right=range(2, len(HEADINGS)))
