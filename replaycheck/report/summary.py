"""summary.md: made to be pasted into an issue or a step summary. Every text from outside is escaped for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from replaycheck.schema.result import Finding, GateResult, Result
from replaycheck.text import shorten

from .rollup import Line, rollup
from .text import number
from .verdict import answer

__all__ = ["summary_markdown"]

MOST = 50
"""Rows of a list. A step summary over 1 MiB is dropped whole; 50 findings of 4 kB keep to 200 kB."""
LONGEST = 4000


def summary_markdown(result: Result) -> str:
    """Verdict, matrix, findings and gates."""
    answered = answer(result)
    failed_first = sorted(result.gates, key=lambda gate: gate.verdict == "pass")
    parts = [
        f"## replaycheck: {answered.verdict}, suite {_escape(result.suite)}",
        f"**{answered.question} {_escape(answered.short)}.** {_escape(answered.sentence)}",
        "\n".join(f"- {_escape(text)}" for text in (f"Compared: {answered.amount}.", *answered.details)),
        _table(Line.HEADINGS, (line.texts for line in rollup(result))),
        "p99, max: |Δ log p| in nat. first at: tokens from the first restore to another top-1 token.",
        *(_finding(finding) for finding in result.findings[:MOST]),
        _table(("gate", "verdict", "value", "bound", "where"), (_gate(gate) for gate in failed_first[:MOST])),
        *_left_out(result),
    ]
    return "\n\n".join(parts) + "\n"


def _finding(finding: Finding) -> str:
    command = shorten(finding.reproduce, LONGEST).replace("`", "'")
    return f"**{finding.code} {_escape(finding.title)}.** {_escape(finding.sentence)} Reproduce: `{command}`"


def _gate(gate: GateResult) -> Sequence[str]:
    return gate.name, gate.verdict, number(gate.value.value), number(gate.bound), gate.worst


def _left_out(result: Result) -> list[str]:
    more = max(0, len(result.findings) - MOST) + max(0, len(result.gates) - MOST)
    return [f"{more} more findings and gates are in report.html."] if more else []


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *([_escape(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(text: str) -> str:
    """``text`` with every sign of Markdown and HTML as itself.

    >>> _escape("a|b <i>`")
    'a\\\\|b \\\\<i\\\\>\\\\`'
    """
    return re.sub(r"([\\`*_{}\[\]<>|#~@])", r"\\\1", shorten(text, LONGEST))
