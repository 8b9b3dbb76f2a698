"""The summary that ``run`` and ``gate`` print: fewer than 40 lines, plain text, clear without colour."""

from __future__ import annotations

import os
import re
import textwrap
from math import ceil
from pathlib import Path

import click

from replaycheck.schema.result import Finding, GateResult, Result
from replaycheck.text import columns, printable, shorten

from .first import first_divergence
from .rollup import Line, rollup
from .text import number
from .verdict import answer

__all__ = ["decorated", "summary_text", "terminal_width"]

WIDTH = 100
MOST = 39
"""Lines. Always there: 1 of verdict, 5 of answer, 2 of amount, 13 of matrix (three pools), 5 of gates, 3 of what to do. A
failing run adds 4 of finding and 5 of divergence, and notes get what is left."""
DROPPED = (("cells",), ("compares",), ("×F_num", "flips"))
"""Columns of the matrix that go, in turn, where it is wider than the terminal: the page has them all."""
LISTED = 2
"""Failed gates that are listed one by one."""

MARKS = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow", "VACUOUS": "yellow", "fail": "red", "same": "green"}


def summary_text(result: Result, run_path: Path, width: int = WIDTH) -> str:
    """Verdict, evidence, matrix, first divergence, finding, failed gates, what to do next; in ``width`` columns.

    No control character of a trace gets out. What is over 39 lines is left to the report: notes first, then the divergence,
    then rows of the matrix.
    """
    answered = answer(result)
    head = [
        _head(answered.verdict, result),
        *_wrap(f"{answered.question} {answered.short}. {answered.sentence}", "", 5, width),
    ]
    amount = _wrap(f"Compared: {answered.amount}.", "  ", 2, width)
    notes = [line for text in answered.details if text not in answered.sizes for line in _wrap(text, "  ", 2, width)]
    table, first = _matrix(result, width), _first(run_path, width)
    end = [*_finding(result.findings, width), *_gates(result.gates, width), *_next(result, run_path)]
    room = MOST - len(head) - len(amount) - len(end)
    first = first if len(table) + len(first) <= room else []
    table = _cut(table, room - len(first))
    blocks = [head, amount, _cut(notes, room - len(first) - len(table)), table, first, end]
    return "\n".join(printable(line).rstrip() for block in blocks for line in block) + "\n"


def terminal_width() -> int:
    """Columns for :func:`summary_text`: as many as the terminal has, up to those it takes anyway."""
    return min(WIDTH, columns(WIDTH))


def decorated(text: str) -> str:
    """``text`` with its verdicts in colour, unless NO_COLOR is set; click takes colours out where no terminal reads them."""
    if os.environ.get("NO_COLOR"):
        return text
    words = rf"^ *({'|'.join(MARKS)})\b"
    return re.sub(words, lambda found: click.style(found[0], fg=MARKS[found[1]], bold=True), text, flags=re.MULTILINE)


def _cut(lines: list[str], room: int) -> list[str]:
    """As many as fit; the last one says that there is more."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"and {len(lines) - room + 1} more lines in the report"] if room > 0 else []


def _head(verdict: str, result: Result) -> str:
    return (
        f"{verdict.upper()}  suite {result.suite}: {result.subject}, kernels {result.kernels}, "
        f"recipe {result.recipe}, {result.device}"
    )


def _matrix(result: Result, width: int) -> list[str]:
    table = _table(rollup(result), width)
    said = ["p99: |Δ log p|, nat.", "×F_num: over that of other cuts.", "parted: branches with another top-1 token."]
    shown = [text for text in said if text.partition(":")[0] in table[0]]
    return ["", *table, *_wrap(" ".join(shown), "", 2, width)]


def _wrap(text: str, indent: str, most: int, width: int) -> list[str]:
    """At most as many lines as ``most`` of :data:`WIDTH`."""
    return textwrap.wrap(
        printable(text),
        width,
        subsequent_indent=indent,
        max_lines=ceil(most * WIDTH / width),
        placeholder=" …",
        break_on_hyphens=False,
    )


def _table(lines: list[Line], width: int) -> list[str]:
    """With as many columns as fit."""
    rows = [dict(zip(Line.HEADINGS, texts, strict=True)) for texts in (Line.HEADINGS, *(line.texts for line in lines))]
    for names in DROPPED:
        if len(_drawn(rows)[0]) <= width:
            break
        rows = [{name: text for name, text in row.items() if name not in names} for row in rows]
    return _drawn(rows)


def _drawn(rows: list[dict[str, str]]) -> list[str]:
    """Words to the left, numbers to the right."""
    widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    left = Line.HEADINGS[:4]
    return [
        "  ".join(text.ljust(widths[name]) if name in left else text.rjust(widths[name]) for name, text in row.items())
        for row in rows
    ]


def _first(run_path: Path, width: int) -> list[str]:
    lines = [line for text in first_divergence(run_path) for line in _wrap(text, "  ", 2, width)]
    return ["", *lines] if lines else []


def _finding(findings: tuple[Finding, ...], width: int) -> list[str]:
    """The first in full; :func:`_next` names the others."""
    return ["", *_wrap(_diagnosis(one), "  ", 3, width)] if (one := next(iter(findings), None)) else []


def _diagnosis(of: Finding) -> str:
    """What it is, how sure that is, and what else it was looked at for and isn't."""
    sure = f" Confidence: {of.confidence}." if of.confidence else ""
    return f"{of.code} {of.title}.{sure} {of.sentence}"


def _gates(gates: tuple[GateResult, ...], width: int) -> list[str]:
    admitted = sum(gate.fault_value is not None for gate in gates)
    passed = sum(gate.verdict == "pass" for gate in gates)
    lines = [
        "",
        *_wrap(
            f"Gates: {passed} of {len(gates)} pass; {admitted} of {len(gates)} were seen to catch their seeded fault.",
            "  ",
            1,
            width,
        ),
    ]
    bad = [gate for gate in gates if gate.verdict != "pass"]
    lines += [shorten(_gate(gate), width) for gate in bad[:LISTED]]
    return lines + ([f"  and {len(bad) - LISTED} more in the report"] if len(bad) > LISTED else [])


def _gate(gate: GateResult) -> str:
    if gate.verdict == "not-judged":
        return f"  not judged {gate.name}: {gate.sentence.removeprefix('Not judged: ').removeprefix('Not judged, ')}"
    value = f"value {number(gate.value.value)}, bound {number(gate.bound)}, n = {number(gate.value.n)}"
    if gate.passing_bound is not None and gate.verdict == "fail":
        value += f", {number(gate.passing_bound)} would pass"
    where = f", at {gate.worst}" if gate.worst else ""
    return f"  {gate.verdict} {gate.name}: {value}{where}"


def _next(result: Result, run_path: Path) -> list[str]:
    lines = [f"Report:  {run_path / 'report.html'}"]
    if result.findings:
        first, *others = (finding.code for finding in result.findings)
        also = f" (also found: {', '.join(others)})" if others else ""
        lines = [f"Explain: replaycheck explain {first}{also}", f"Repeat:  {result.findings[0].reproduce}", *lines]
    return lines
