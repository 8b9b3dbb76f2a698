"""The table of ``probe kernels`` on a terminal: 120 columns, plain text, a block for each group of properties."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from replaycheck.schema.probe_table import ProbeCell, ProbeProperty, ProbeRow, ProbeTable
from replaycheck.schema.probe_times import ProbeTimes
from replaycheck.text import printable

from .text import plural

__all__ = ["counts", "label", "probe_text", "small", "time_lines", "tuning"]

WIDTH = 120
_LABEL, _CELL = 29, 13
_VERDICTS = ("exact", "noise", "broken", "can't")


def probe_text(table: ProbeTable, times: ProbeTimes) -> str:
    """The blocks, then what is broken with its smallest example, what can't be probed, what wasn't, and the time."""
    lines = [f"Kernels on {table.device}, seed {table.seed}{tuning(table)}: {counts(table)}"]
    for group in dict.fromkeys(each.group for each in table.properties):
        lines += ["", *_block(table, group)]
    lines += [
        "",
        "exact: the same bits. noise: relative difference that the recipe's rounding points predict, or that is no fault.",
    ]
    lines += [line for row, cell in table.broken for line in _broken(row, cell)]
    lines += [line for text in _cannot(table) for line in _wrapped(text)]
    lines += [line for name, why in table.not_probed.items() for line in _wrapped(f"Not probed: {name}: {why}")]
    lines += [line for warning in table.warnings for line in _wrapped(f"Warning: {warning}")]
    lines += ["", *(line for text in time_lines(times) for line in _wrapped(text))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def counts(table: ProbeTable) -> str:
    """``48 cells: 30 exact, 17 noise, 1 can't``."""
    found = [cell.verdict for row in table.rows for cell in row.cells]
    parts = [f"{found.count(verdict)} {verdict}" for verdict in _VERDICTS if verdict in found]
    return f"{plural(len(found), 'cell')}: {', '.join(parts)}"


def tuning(table: ProbeTable) -> str:
    """What Triton's autotuning was allowed; the choice changes bits."""
    if table.autotune is None:
        return ""
    if not table.autotune:
        return ", every autotuning configuration"
    return f", at most {plural(table.autotune, 'autotuning configuration')}"


def time_lines(times: ProbeTimes) -> list[str]:
    """A line a provider: after warm-up where a second pass was made, else the one pass."""
    lines = []
    for name, (first, warm) in times.providers().items():
        if warm is None:
            lines.append(f"Time of {name}: {first:.1f} s, one pass over its kernels")
        else:
            lines.append(f"Time of {name}: {warm:.1f} s after warm-up; {first:.1f} s with compilation and autotuning")
    return lines


def label(row: ProbeRow) -> str:
    """``ours/chunk-emulator kda, sglang``; the recipe is what the kernel claims or was asked to run."""
    return f"{row.kernel} {row.kind}"


def small(number: float) -> str:
    """Two digits without a padded exponent.

    >>> small(0.0046), small(0.0), small(0.12), small(2.5e-07), small(2.06)
    ('4.6e-3', '0', '1.2e-1', '2.5e-7', '2.1')
    """
    if not number:
        return "0"
    if 1 <= number < 10:
        return f"{number:.1f}"
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits}e{int(exponent)}"


def _block(table: ProbeTable, group: str) -> Iterator[str]:
    columns = [each for each in table.properties if each.group == group]
    yield f"{group:{_LABEL}}" + "".join(f"{each.name:<{_CELL}}" for each in columns)
    for row in table.rows:
        yield f"{_fitted(label(row)):{_LABEL}}" + _cells(row, columns)


def _fitted(text: str) -> str:
    """Both ends of a long label: names differ in the last letters, too."""
    shown, half = printable(text), (_LABEL - 2) // 2
    return shown if len(shown) < _LABEL else f"{shown[:half]}…{shown[-half:]}"


def _cells(row: ProbeRow, columns: Sequence[ProbeProperty]) -> str:
    return "".join(f"{_shown(row.cell(each.name)):<{_CELL}}" for each in columns)


def _shown(cell: ProbeCell) -> str:
    if cell.verdict == "noise":
        return f"noise {small(cell.number)}" if cell.number is not None else "noise"
    return "BROKEN" if cell.verdict == "broken" else cell.verdict


def _broken(row: ProbeRow, cell: ProbeCell) -> list[str]:
    lines = ["", *_wrapped(f"BROKEN {label(row)}, {cell.property}: {cell.sentence}")]
    return lines + (_wrapped(f"       smallest example: {cell.example}") if cell.example else [])


def _cannot(table: ProbeTable) -> list[str]:
    """A line for each property and reason, with the kernels that share it."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        for cell in row.cells:
            if cell.verdict == "can't":
                reasons.setdefault((cell.property, cell.sentence), []).append(label(row))
    return [f"Can't probe {name} of {', '.join(who)}: {why}" for (name, why), who in reasons.items()]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        printable(text), WIDTH, subsequent_indent="       ", break_on_hyphens=False, drop_whitespace=True
    )
