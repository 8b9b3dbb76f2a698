"""What a summary needs of every position, trace and branch, kept on disk: memory holds sums, whatever the number of traces.

Differences go to one file of float64, a slice a part and cell. Numbers a trace and rows a branch go to SQLite, which sorts
outside of memory; it also finds a trace that two parts hold.
"""

from __future__ import annotations

import shutil
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.errors import UsageError
from replaycheck.schema.frames import to_arrow

__all__ = ["Spill"]

FOLDER = ".spill.tmp"

CACHE = 16 * 2**20
"""Bytes of pages that SQLite keeps; a sort that takes more goes to a file."""

BLOCK = 2**17
"""Values read at a time: 1 MiB."""

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = FILE;
CREATE TABLE traces (trace TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE places (trace TEXT, part TEXT, PRIMARY KEY (trace, part)) WITHOUT ROWID;
CREATE TABLE means (cell INTEGER, cluster TEXT, trace TEXT, mean REAL);
CREATE TABLE parted (cell TEXT, experiment TEXT, kind TEXT, trace TEXT, branch INTEGER, turn INTEGER, position INTEGER,
    offset_from_restore INTEGER, token_a INTEGER, token_b INTEGER, margin REAL, dlogp REAL, censored INTEGER);
"""

_PLACE = "SELECT part FROM places WHERE trace = ?"

#: Columns of a DIVERGENCES row, in the order of the table ``parted``: the key first.
PARTED = (
    "cell", "experiment", "kind", "trace", "branch", "turn", "position",
    "offset_from_restore", "token_a", "token_b", "margin", "dlogp", "censored",
)  # fmt: skip


class Spill:
    """A scratch folder inside a run's; gone when the block ends, and what a killed run left of it when one begins."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._slices: dict[int, array[int]] = {}  # by cell: start, count, start, count …
        self._written = 0

    def __enter__(self) -> Spill:
        self._remove()
        self._folder.mkdir()
        # SQLite's own files lie beside the run, too: /tmp is memory on some machines.
        self._base = sqlite3.connect(self._folder / "rows.sqlite", isolation_level=None)
        self._base.execute(f"PRAGMA cache_size = {-CACHE // 1024}")
        self._base.executescript(_TABLES)
        self._base.execute("BEGIN")
        self._floats = (self._folder / "floats").open("w+b")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()
        self._floats.close()
        self._remove()

    def _remove(self) -> None:
        if self._folder.is_symlink():
            self._folder.unlink()
        elif self._folder.exists():
            shutil.rmtree(self._folder)

    def add_values(self, cell: int, values: NDArray[np.float64]) -> None:
        """Differences [n] of one cell in one part, nat."""
        if len(values):
            self._slices.setdefault(cell, array("q")).extend((self._written, len(values)))
            self._floats.write(np.ascontiguousarray(values, np.float64).tobytes())
            self._written += len(values)

    def count(self, cell: int) -> int:
        """How many differences the cell has."""
        return sum(self._slices.get(cell, ())[1::2])

    def values(self, cell: int) -> Iterator[NDArray[np.float64]]:
        """The differences of one cell, in blocks."""
        self._floats.flush()
        slices, waiting, size = self._slices.get(cell, array("q")), [], 0
        for start, count in zip(slices[::2], slices[1::2], strict=True):
            for at in range(start, start + count, BLOCK):
                n = min(BLOCK, start + count - at)
                self._floats.seek(8 * at)
                waiting.append(np.frombuffer(self._floats.read(8 * n), np.float64))
                size += n
                if size >= BLOCK:
                    yield np.concatenate(waiting)
                    waiting, size = [], 0
        if waiting:
            yield np.concatenate(waiting)

    def add_traces(self, traces: Sequence[str], part: str) -> None:
        """Names of the traces of a part. Raises :class:`UsageError` if an earlier part has one of them."""
        for trace in traces:
            try:
                self._base.execute("INSERT INTO traces VALUES (?)", (trace,))
            except sqlite3.IntegrityError:
                raise UsageError(
                    f"{part!r} holds the same row in two parts: trace {trace!r} is in another part, too; give the folder "
                    "of an untouched run"
                ) from None

    def add_places(self, traces: Sequence[str], part: str) -> None:
        """Which part of another run holds these traces."""
        self._base.executemany("INSERT INTO places VALUES (?, ?)", ((trace, part) for trace in traces))

    def places(self, traces: Sequence[str]) -> list[str]:
        """The parts that hold any of these traces, by name."""
        found = {row[0] for trace in traces for row in self._base.execute(_PLACE, (trace,))}
        return sorted(found)

    @property
    def traces(self) -> int:
        return int(self._base.execute("SELECT count(*) FROM traces").fetchone()[0])

    def add_means(self, rows: Iterable[tuple[int, str, str, float]]) -> None:
        """Cell, cluster, trace, mean."""
        self._base.executemany("INSERT INTO means VALUES (?, ?, ?, ?)", rows)

    def means(self) -> Iterator[tuple[int, str, float]]:
        """Cell, cluster, mean; by cell, cluster and trace."""
        yield from self._base.execute("SELECT cell, cluster, mean FROM means ORDER BY cell, cluster, trace")

    def add_parted(self, parted: pa.Table) -> None:
        """DIVERGENCES rows of one part."""
        rows = zip(*(parted[name].to_pylist() for name in PARTED), strict=True)
        self._base.executemany(f"INSERT INTO parted VALUES ({', '.join('?' * len(PARTED))})", rows)

    def parted(self, rows: int) -> Iterator[pa.Table]:
        """All DIVERGENCES rows in key order, so many at a time; at least one table, if an empty one."""
        found = self._base.execute("SELECT * FROM parted ORDER BY cell, experiment, kind, trace, branch")
        block = found.fetchmany(rows)
        yield _divergences(block)
        while block := found.fetchmany(rows):
            yield _divergences(block)


def _divergences(rows: Sequence[Sequence[object]]) -> pa.Table:
    columns: dict[str, tuple[object, ...]] = dict.fromkeys(PARTED, ())
    if rows:
        columns |= dict(zip(PARTED, zip(*rows, strict=True), strict=True))
    columns["censored"] = tuple(map(bool, columns["censored"]))
    return to_arrow("divergences", columns)
