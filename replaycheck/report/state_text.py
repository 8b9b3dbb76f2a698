"""The table of ``probe state`` as text: one line a row, sentences of those that are broken."""

from __future__ import annotations

import textwrap

from replaycheck.schema.state_table import StateRow, StateTable
from replaycheck.text import printable

__all__ = ["state_text"]

WIDTH = 120


def state_text(table: StateTable) -> str:
    """Ends with a newline; no line is wider than 120 characters but for a long name."""
    name = max(len(row.name) for row in table.rows)
    part = max(len(row.part) for row in table.rows)
    planted = f", with {', '.join(table.faults)}" if table.faults else ""
    lines = [f"probe state: {table.device}, recipe {table.recipe}, seed {table.seed}{planted}", ""]
    for row in table.rows:
        head = f"{row.verdict:6}  {row.part:{part}}  {row.name:{name}}  "
        lines += _wrapped(head, row)
    return "\n".join([*lines, "", _counts(table)]) + "\n"


def _wrapped(head: str, row: StateRow) -> list[str]:
    text = row.sentence
    if row.verdict == "broken":
        text = f"{row.sentence}. Required: {row.required}. Smallest example: {row.example}"
    indent = " " * len(head)
    return textwrap.wrap(printable(text), WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def _counts(table: StateTable) -> str:
    counts = {verdict: sum(row.verdict == verdict for row in table.rows) for verdict in ("exact", "broken", "can't")}
    said = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    return f"{len(table.rows)} operations: {', '.join(said)}."
