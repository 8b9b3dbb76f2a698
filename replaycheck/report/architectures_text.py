"""The table of ``probe architectures`` on a terminal: 120 columns, plain text, a block for each group of operations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from replaycheck.schema.architectures import ArchitectureCell, ArchitectureRow, ArchitectureTable
from replaycheck.text import printable

from .probe_text import small
from .text import plural

__all__ = ["architecture_counts", "architectures_text", "fault_sentence", "floor_words"]

WIDTH = 120
_LABEL, _CELL = 26, 15
_VERDICTS = ("exact", "noise", "fault", "refused", "crashed")
_LEGEND = (
    "exact: the same bits as the uncached forward. noise: rounding. FAULT: not rounding, the largest difference in nat; "
    "with * an operation that it builds on is faulty, too. refused: the library says no, or warns. crashed: an error inside."
)


def architectures_text(table: ArchitectureTable) -> str:
    """The blocks, each own fault in a sentence, crashes and refusals by what was said."""
    lines = [f"transformers {table.transformers}, {table.dtype}, seed {table.seed}: {architecture_counts(table)}"]
    for group in dict.fromkeys(each.group for each in table.operations):
        lines += ["", *_block(table, group)]
    lines += ["", *_wrapped(_LEGEND), ""]
    lines += [line for row, cell in table.found("fault") if not cell.follows for line in _wrapped(_fault(row, cell))]
    lines += ["", *(line for verdict in ("crashed", "refused") for line in _said(table, verdict))]
    lines += [line for row in table.rows if row.error for line in _wrapped(f"{row.name} can't be built: {row.error}")]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def architecture_counts(table: ArchitectureTable) -> str:
    """``31 architectures, 620 cells: 400 noise, 20 faults in 9 architectures``"""
    found = [cell.verdict for row in table.rows for cell in row.cells]
    parts = [f"{found.count(verdict)} {verdict}" for verdict in _VERDICTS if verdict in found]
    faulty = len({row.name for row, _ in table.found("fault")})
    where = f"; faults in {plural(faulty, 'architecture')}" if faulty else ""
    return f"{plural(len(table.rows), 'architecture')}, {plural(len(found), 'cell')}: {', '.join(parts)}{where}"


def fault_sentence(cell: ArchitectureCell) -> str:
    """``0.14 nat; cut into 1, 132: first wrong at position 1, 132 of 133 wrong``"""
    size = "not a number" if cell.size is None else f"{cell.size:.2g} nat"
    then = f"; {cell.sentence}" if cell.sentence else ""
    return (
        f"{size}; {cell.where}: first wrong at position {cell.first_wrong}, {cell.wrong} of {cell.compared} wrong{then}"
    )


def floor_words(row: ArchitectureRow) -> str:
    """What the model's floor is, in a word and a number; "" where it wasn't measured."""
    return "" if row.floor is None else f"floor {small(row.floor)}"


def _block(table: ArchitectureTable, group: str) -> Iterator[str]:
    columns = [each.name for each in table.operations if each.group == group]
    yield f"{group:{_LABEL}}" + "".join(f"{name:<{_CELL}}" for name in columns)
    for row in table.rows:
        label = row.name + (" (control)" if row.control else "")
        yield f"{label:{_LABEL}}" + "".join(f"{_shown(row.cell(name)):<{_CELL}}" for name in columns)


def _shown(cell: ArchitectureCell | None) -> str:
    if cell is None:
        return "-"
    if cell.verdict == "fault":
        mark = "*" if cell.follows else ""
        return f"FAULT{mark} {small(cell.size)}" if cell.size is not None else f"FAULT{mark} NaN"
    if cell.verdict == "noise" and cell.size is not None:
        return f"noise {small(cell.size)}" + ("!" if cell.cause else "")
    return cell.verdict


def _fault(row: ArchitectureRow, cell: ArchitectureCell) -> str:
    return f"FAULT {row.name}, {cell.operation}: {fault_sentence(cell)}"


def _said(table: ArchitectureTable, verdict: str) -> Iterator[str]:
    """A line for each operation and message, with the architectures that share it."""
    shared: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        for cell in row.cells:
            if cell.verdict == verdict:
                shared.setdefault((cell.operation, cell.sentence), []).append(row.name)
    for (operation, sentence), names in shared.items():
        yield from _wrapped(f"{verdict} {operation}, {', '.join(names)}: {sentence}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent="    ", break_on_hyphens=False)
