"""The table of ``run --server-options`` as text: options down, architectures across, then each fault in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from replaycheck.schema.server_options import OptionCell, OptionMove, ServerOptionsTable
from replaycheck.text import aligned, printable

__all__ = ["server_options_text"]

WIDTH = 120

_LETTERS = {"no hit": "no hit", "approximate": "approx."}


def server_options_text(table: ServerOptionsTable) -> str:
    """Ends with a newline."""
    architectures = list(dict.fromkeys(cell.architecture for cell in table.cells))
    options = list(dict.fromkeys(cell.option for cell in table.cells))
    cells = {(cell.option, cell.architecture): cell for cell in table.cells}
    rows = [["", *architectures]]
    rows += [[option, *(_shown(cells[option, name]) for name in architectures)] for option in options]
    lines = [f"{printable(table.server)}, seed {table.seed}: cached against uncached, largest |Δ log p| in nat", ""]
    lines += [*aligned(rows, right=range(1, len(rows[0]))), "", *_counts(table), *_faults(table), *_approximate(table)]
    return "\n".join(lines) + "\n"


def _shown(cell: OptionCell) -> str:
    largest = cell.largest
    word = _LETTERS.get(cell.verdict, cell.verdict)
    return word if largest is None else f"{word} {largest.difference:.1e}"


def _counts(table: ServerOptionsTable) -> Iterator[str]:
    verdicts = dict.fromkeys(cell.verdict for cell in table.cells)
    said = ", ".join(f"{len(table.found(verdict))} {verdict}" for verdict in verdicts)
    hits = sum(cell.hits for cell in table.cells)
    yield f"{len(table.cells)} cells: {said}; {hits} hits, each by the server's own count."
    yield f"Noise is what uncached answers differ by in other splits; beyond {table.factor:g} times it, it isn't noise."


def _faults(table: ServerOptionsTable) -> Iterator[str]:
    for cell in table.found("fault"):
        yield ""
        yield f"fault: {printable(cell.architecture)}, {printable(cell.option)} (noise {cell.noise or 0:.1e} nat)"
        for move in cell.moves:
            if move.verdict == "fault":
                yield from _wrapped(_sentence(move))
    for verdict in ("crashed", "refused"):
        for cell in table.found(verdict):
            yield ""
            yield from _wrapped(f"{verdict}: {cell.architecture}, {cell.option}: {cell.why}")


def _sentence(move: OptionMove) -> str:
    instead = f"; it is the right answer to another text: {move.wrong_text}" if move.wrong_text else ""
    return f"  {move.move}: {move.hit} tokens from the cache, off by {move.difference:.2g} nat{instead}"


def _approximate(table: ServerOptionsTable) -> Iterator[str]:
    if table.found("approximate"):
        for option, why in table.approximate.items():
            yield ""
            yield from _wrapped(f"approximate: {option}: {why}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent="    ", break_on_hyphens=False)
