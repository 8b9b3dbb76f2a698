"""The summary that ``run`` and ``gate`` print: fewer than 40 lines, plain text, clear without colour."""

from __future__ import annotations

import textwrap
from pathlib import Path

from replaycheck.schema.result import Finding, GateResult, Result
from replaycheck.text import printable, shorten

from .rollup import Line, rollup
from .text import number
from .verdict import answer

__all__ = ["summary_text"]

WIDTH = 100
LISTED = 2
"""Failed gates that are listed one by one. The longest summary then has 39 lines: 11 of answer and amount, 13 of
matrix, 8 of finding, 4 of gates and 3 of what to do."""


def summary_text(result: Result, run_path: Path) -> str:
    """Verdict, evidence, matrix, finding, failed gates, what to do next; no control character of a trace gets out."""
    answered = answer(result)
    blocks = [
        [_head(answered.verdict, result)],
        _wrap(f"{answered.question} {answered.short}. {answered.sentence}"),
        [line for text in (f"Compared: {answered.amount}.", *answered.details) for line in _wrap(text, "  ")],
        [
            "",
            *_table(rollup(result)),
            "p99, max: |Δ log p|, nat. first at: tokens from restore to another top-1 token.",
        ],
        _finding(result.findings),
        _gates(result.gates),
        _next(result, run_path),
    ]
    return "\n".join(printable(line).rstrip() for block in blocks for line in block) + "\n"


def _head(verdict: str, result: Result) -> str:
    return (
        f"{verdict.upper()}  suite {result.suite}: {result.subject}, kernels {result.kernels}, "
        f"recipe {result.recipe}, {result.device}"
    )


def _wrap(text: str, indent: str = "", most: int = 7) -> list[str]:
    return textwrap.wrap(
        printable(text), WIDTH, subsequent_indent=indent, max_lines=most, placeholder=" …", break_on_hyphens=False
    )


def _table(lines: list[Line]) -> list[str]:
    rows = [Line.HEADINGS, *(line.texts for line in lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(Line.HEADINGS))]
    return [
        "  ".join(_cell(text, width, at) for at, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def _cell(text: str, width: int, at: int) -> str:
    """Words to the left, numbers to the right."""
    return text.ljust(width) if at < 4 else text.rjust(width)


def _finding(findings: tuple[Finding, ...]) -> list[str]:
    """The first in full; :func:`_next` names the others."""
    return ["", *_wrap(f"{one.code} {one.title}: {one.sentence}", "  ")] if (one := next(iter(findings), None)) else []


def _gates(gates: tuple[GateResult, ...]) -> list[str]:
    admitted = sum(gate.fault_value is not None for gate in gates)
    passed = sum(gate.verdict == "pass" for gate in gates)
    lines = [
        "",
        f"Gates: {passed} of {len(gates)} pass; {admitted} of {len(gates)} were seen to catch their seeded fault.",
    ]
    bad = [gate for gate in gates if gate.verdict != "pass"]
    for gate in bad[:LISTED]:
        value = f"value {number(gate.value.value)}, bound {number(gate.bound)}, n = {number(gate.value.n)}"
        lines.append(shorten(f"  {gate.verdict} {gate.name}: {value}, at {gate.worst}", WIDTH))
    return lines + ([f"  and {len(bad) - LISTED} more in the report"] if len(bad) > LISTED else [])


def _next(result: Result, run_path: Path) -> list[str]:
    lines = [f"Report:  {run_path / 'report.html'}"]
    if result.findings:
        first, *others = (finding.code for finding in result.findings)
        also = f" (also found: {', '.join(others)})" if others else ""
        lines = [f"Explain: replaycheck explain {first}{also}", f"Repeat:  {result.findings[0].reproduce}", *lines]
    return lines
