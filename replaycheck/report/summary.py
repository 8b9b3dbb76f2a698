"""summary.md: made to be pasted into an issue or a step summary. Every text from outside is escaped for Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from replaycheck.schema.environment import Environment
from replaycheck.schema.result import Finding, GateResult, Result
from replaycheck.text import shorten

from .gate_lines import by_weight, span
from .rollup import Line, rollup
from .text import number, plural
from .verdict import answer

__all__ = ["MOST_BYTES", "summary_markdown"]

MOST_BYTES = 200_000
"""GitHub drops a step summary over 1 MiB whole (1,962 kB was seen); a fifth of it leaves room for other tools."""

_LAST = 200
"""Bytes kept for the last line, which counts what was left out; it has no text from outside."""

LONGEST = 4000
"""Characters of a sentence or a command. As each takes 8 bytes at most (4 of UTF-8, or 2 escaped), six fill the file."""

_DETAILS = 20
"""Lines that put the answer in proportion: one a reason why something wasn't checked."""

_ROW = 300
"""Characters of a cell of a table."""


def summary_markdown(result: Result, environment: Environment) -> str:
    """Verdict, matrix, findings, gates and environment, in less than 200 kB; the last line says what is left out."""
    gates = by_weight(result.gates)
    room = _Room(MOST_BYTES - _LAST)
    parts = [*room.all(_head(result)), *room.first(result.findings, _finding)]
    rows = room.first(gates, _gate_row, after=_GATE_TABLE)
    parts += ["\n".join([*_GATE_TABLE, *rows])] if rows else []
    parts += room.first([environment], lambda found: _environment(result, found))
    if room.left_out:
        parts.append(f"{room.left_out:,} more in the artifact: report.html and junit.xml have everything.")
    return "\n\n".join(parts) + "\n"


T = TypeVar("T")


class _Room:
    """Bytes that are left. left_out: parts that didn't fit."""

    def __init__(self, free: int) -> None:
        self._free = free
        self.left_out = 0

    def first(self, items: Sequence[T], render: Callable[[T], str], after: Sequence[str] = ()) -> list[str]:
        """As many of ``items`` as fit, from the first on; ``after``: lines that the first of them needs."""
        needed = sum(_size(line) for line in after)
        kept: list[str] = []
        for item in items:
            part = render(item)
            needed += _size(part)
            if needed > self._free:
                break
            kept.append(part)
            self._free, needed = self._free - needed, 0
        self.left_out += len(items) - len(kept)
        return kept

    def all(self, parts: Iterable[str]) -> Iterator[str]:
        """Every part, whether it fits or not: those that are bounded by their own nature."""
        for part in parts:
            self._free -= _size(part)
            yield part


def _size(part: str) -> int:
    return len(part.encode()) + 2  # and the empty line after it


def _head(result: Result) -> Iterator[str]:
    """The answer and the matrix. Bounded: 4 sentences, 20 details, and a line a pool dtype and effect."""
    answered = answer(result)
    yield f"## replaycheck: {answered.verdict}, suite {_escape(result.suite, _ROW)}"
    yield f"**{answered.question} {_escape(answered.short)}.** {_escape(answered.sentence)}"
    details = (f"Compared: {answered.amount}.", *answered.details[:_DETAILS])
    yield "\n".join(f"- {_escape(text, _ROW)}" for text in details)
    yield _table(Line.HEADINGS, (line.texts for line in rollup(result)))
    yield "p99: |Δ log p| in nat. ×F_num: over that of other cuts. parted: branches with another top-1 token."


def _finding(finding: Finding) -> str:
    told = f"**{finding.code} {_escape(finding.title)}.** {_escape(finding.sentence)}"
    return f"{told} Reproduce: {_code(finding.reproduce)}"


_GATE_COLUMNS = ("gate", "verdict", "value", "bound", "n", "where")


def _gate_row(gate: GateResult) -> str:
    value = " ".join(filter(None, (number(gate.value.value), span(gate.value))))
    name, n = f"{gate.file}/{gate.name}", number(gate.value.n)
    return _row((name, gate.verdict, value, number(gate.bound), n, gate.worst))


def _environment(result: Result, environment: Environment) -> str:
    """What somebody who reads it in an issue asks first."""
    there = {name: version for name, version in environment.versions.items() if version is not None}
    versions = ", ".join(f"{name} {version}" for name, version in sorted(there.items()))
    device = environment.device_name or environment.cpu or environment.device
    told = (
        f"{result.subject}, model {result.model}, kernels {result.kernels}, recipe {result.recipe}, seed {result.seed}, "
        f"on {device}, {plural(environment.cores, 'core')}. {versions}."
    )
    return f"Environment: {_escape(told)}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([*_headings(headings), *map(_row, rows)])


def _headings(names: Sequence[str]) -> tuple[str, str]:
    return f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape(cell, _ROW) for cell in cells)} |"


_GATE_TABLE = _headings(_GATE_COLUMNS)


def _escape(text: str, longest: int = LONGEST) -> str:
    """``text`` with every sign of Markdown and HTML as itself, and nothing that becomes a link or a mention.

    >>> _escape("a|b <i>` &lt; https://x")
    'a\\\\|b \\\\<i\\\\>\\\\` \\\\&lt; https\\\\://x'
    """
    escaped = re.sub(r"([\\`*_{}\[\]<>|#~@&$])", r"\\\1", shorten(text, longest))
    return re.sub(r"(?i)\bwww\.", r"www\\.", escaped.replace("://", r"\://"))


def _code(text: str) -> str:
    """``text`` in backticks, more of them than it has in a row itself (CommonMark 6.1).

    >>> _code("a `b`")
    '`` a `b` ``'
    """
    shown = shorten(text, LONGEST)
    runs = re.findall("`+", shown)
    if not runs:
        return f"`{shown}`"
    fence = "`" * (max(map(len, runs)) + 1)
    return f"{fence} {shown} {fence}"
