"""Parquet parts: one atomic file a table and group, read back only if it is whole and has the columns of the contract.

Equal rows give equal bytes: rows are in key order, dictionaries in order of appearance, and no metadata of pandas, path
or time is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from replaycheck.errors import InternalError, UsageError
from replaycheck.files import atomic_file, write_atomically
from replaycheck.json_files import refuse_link
from replaycheck.schema.frames import KEYS, empty_frame, to_arrow, to_frame
from replaycheck.schema.tables import TABLES

__all__ = [
    "MAX_ROWS",
    "Run",
    "RunTables",
    "encode",
    "part_path",
    "read_blocks",
    "read_part",
    "read_table",
    "write_part",
    "write_whole",
]

FORMAT: dict[str, Any] = {"compression": "zstd", "version": "2.6"}

MAX_ROWS = 50_000_000
"""Rows of one table of a run. A row of observations takes about 400 bytes in memory, so this is 20 GB: more is a
damaged or hostile footer, found before memory is taken."""


@dataclass(frozen=True)
class Run:
    """A folder that is a run."""

    path: Path

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"


_WHOLE = {"divergences"}
"""Tables that one file holds, since they are made once every group is done."""

_LATER = {"divergences": {"experiment": "forced"}}
"""Columns that were added at the end of a table, and what a file without them means."""

_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def part_path(run: Run, folder: str, group: str, suffix: str) -> Path:
    """``run/folder/group.suffix``, the folder made; refuses names that could lead outside and links."""
    if not _GROUP.fullmatch(group):
        raise InternalError(
            f"group {group!r} isn't a name of letters, digits, '.', '_' and '-'; schemas should refuse it"
        )
    path = run.path / folder / f"{group}.{suffix}"
    refuse_link(path.parent)
    refuse_link(path)
    path.parent.mkdir(exist_ok=True)
    return path


def write_part(run: Run, table: str, group: str, rows: pa.Table | pd.DataFrame) -> Path:
    """Write the rows of one group; ``rows`` in any order, with the columns of ``TABLES[table]``."""
    path = part_path(run, table, group, "parquet")
    columns = {name: rows[name] for name in TABLES[table].names}
    write_atomically(path, encode(to_arrow(table, columns)))
    return path


def write_whole(run: Run, table: str, blocks: Iterable[pa.Table]) -> Path:
    """Write a table that one file holds, from blocks of rows in key order."""
    path = run.path / f"{table}.parquet"
    refuse_link(path)
    with atomic_file(path) as handle, pq.ParquetWriter(handle, TABLES[table], **FORMAT) as writer:
        for block in blocks:
            writer.write_table(block)
    return path


def encode(rows: pa.Table) -> bytes:
    """The bytes of a part; rows in key order, with the schema of their table."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **FORMAT)
    return bytes(sink.getvalue().to_pybytes())


def read_table(run: Run, table: str) -> pd.DataFrame:
    """All rows of a table of a run in key order; an empty frame where no part is there."""
    parts = [_read(path, table) for path in _paths(run, table)]
    if not parts:
        return empty_frame(table)
    rows = sum(part.num_rows for part in parts)
    if rows > MAX_ROWS:
        raise UsageError(
            f"{str(run.path / table)!r} has {rows:,} rows; at most {MAX_ROWS:,} are read; give another run"
        )
    whole = pa.concat_tables(parts).unify_dictionaries()
    frame = to_frame(to_arrow(table, {name: whole[name] for name in whole.column_names}))
    if frame.duplicated(KEYS[table]).any():
        raise UsageError(
            f"{str(run.path / table)!r} holds the same row in two parts; give the folder of an untouched run"
        )
    return frame


def read_part(run: Run, table: str, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of one part in key order; only these columns, if they are named."""
    return _read(part_path(run, table, name, "parquet"), table, columns)


def read_blocks(run: Run, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """All rows of a table, a bounded number at a time: part by part, or by the row groups of the one file."""
    for path in _paths(run, table):
        if table not in _WHOLE:
            yield _read(path, table, columns)
            continue
        with _opened(path, table) as file:
            for group in range(file.num_row_groups):
                yield _completed(table, file.read_row_group(group, columns=columns), columns)


@dataclass(frozen=True)
class RunTables:
    """The tables of a run as gates read them (``gates.tables.Tables``)."""

    run: Run

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """See :func:`read_blocks`."""
        return read_blocks(self.run, table, columns)


def _paths(run: Run, table: str) -> list[Path]:
    if table in _WHOLE:
        path = run.path / f"{table}.parquet"
        return [path] if path.exists() or path.is_symlink() else []
    refuse_link(run.path / table)
    return sorted((run.path / table).glob("[!.]*.parquet"))


def _read(path: Path, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    with _opened(path, table) as file:
        return _completed(table, file.read(columns=columns), columns)


def _completed(table: str, rows: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """The rows with the columns that an older version of replaycheck didn't write, filled with what it meant."""
    for name, meant in _LATER.get(table, {}).items():
        if name not in rows.column_names and (columns is None or name in columns):
            kind = TABLES[table].field(name).type
            same = pa.array([meant] * rows.num_rows, pa.string()).dictionary_encode().cast(kind)
            rows = rows.append_column(TABLES[table].field(name), same)
    return rows.select(list(columns)) if columns is not None else rows


@contextmanager
def _opened(path: Path, table: str) -> Iterator[pq.ParquetFile]:
    refuse_link(path)
    try:
        with pq.ParquetFile(path) as file:
            _refuse_foreign(path, table, file)
            yield file
    except (pa.ArrowException, OSError):
        raise UsageError(
            f"{str(path)!r} isn't a complete parquet file; delete it and 'groups/{path.stem}.json' beside its folder, "
            "then finish the run with --resume"
        ) from None


def _refuse_foreign(path: Path, table: str, file: pq.ParquetFile) -> None:
    later = len(TABLES[table]) - len(_LATER.get(table, {}))
    older = pa.schema(list(TABLES[table])[:later])
    if not (file.schema_arrow.equals(TABLES[table]) or file.schema_arrow.equals(older)):
        raise UsageError(
            f"{str(path)!r} doesn't have the columns {', '.join(TABLES[table].names)} of table {table!r}; "
            "give a run of this version of replaycheck"
        )
    if file.metadata.num_rows > MAX_ROWS:
        raise UsageError(
            f"{str(path)!r} claims {file.metadata.num_rows:,} rows; at most {MAX_ROWS:,} are read; give another run"
        )
