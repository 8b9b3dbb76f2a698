"""Between columns, arrow tables and data frames: one shape and one order for every table of a run directory.

``to_arrow`` makes a table of the contract with its rows in key order, so that equal content means equal bytes on disk;
``to_frame`` gives the same rows to pandas, with plain strings and with integers that may be null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from .tables import TABLES

__all__ = ["KEYS", "decoded", "empty_frame", "in_order", "plain", "to_arrow", "to_frame"]

#: What identifies a row, in sorting order.
KEYS: dict[str, list[str]] = {
    "observations": ["arm", "experiment", "trace", "branch", "turn", "position"],
    "pairs": ["cell", "experiment", "trace", "branch", "turn", "position"],
    "restores": ["cell", "trace", "restore", "layer", "head"],
    "divergences": ["cell", "experiment", "kind", "trace", "branch"],
}

#: Integer columns that may be null; pandas' default would turn them into floats.
_NULLABLE = {"top1", "restore", "offset_from_restore", "token_a", "token_b"}


def to_arrow(table: str, columns: Mapping[str, Any] | pd.DataFrame) -> pa.Table:
    """A table of the contract from columns (arrays or sequences of equal length; NaN and None become null)."""
    return in_order(table, [plain(table, columns)])


def plain(table: str, columns: Mapping[str, Any] | pd.DataFrame) -> pa.Table:
    """Some rows of a table, neither sorted nor with dictionaries: cheap enough for every turn of every arm."""
    schema = TABLES[table]
    return pa.table(
        [_plain(columns[field.name], field.type) for field in schema],
        schema=pa.schema([(field.name, _decoded(field.type)) for field in schema]),
    )


def in_order(table: str, parts: Sequence[pa.Table]) -> pa.Table:
    """A table of the contract from parts that :func:`plain` made."""
    if not parts:
        return TABLES[table].empty_table()
    rows = pa.concat_tables(parts).sort_by([(key, "ascending") for key in KEYS[table]])
    return _encoded(rows, TABLES[table])


def decoded(rows: pa.Table) -> pa.Table:
    """Rows of a table of the contract without dictionaries, as :func:`plain` gives them."""
    return rows.cast(pa.schema([(field.name, _decoded(field.type)) for field in rows.schema]))


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _plain(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(_decoded(kind))
    return pa.array(values, type=_decoded(kind), from_pandas=True)


def _encoded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Dictionaries in order of appearance, which the row order fixes."""
    columns = []
    for field in schema:
        column = rows[field.name].combine_chunks()
        columns.append(column.dictionary_encode() if pa.types.is_dictionary(field.type) else column)
    return pa.table(columns, schema=schema)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The rows for pandas: strings decoded, nullable integers as ``Int32``, lists left to arrow."""
    columns = {name: _series(name, table[name]) for name in table.column_names}
    return pd.DataFrame(columns, copy=False)


def _series(name: str, column: pa.ChunkedArray) -> pd.Series:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type).to_pandas()
    if pa.types.is_list(column.type):
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    if name in _NULLABLE:
        return column.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    return column.to_pandas()


def empty_frame(table: str) -> pd.DataFrame:
    """A frame with the columns of a table and no rows."""
    return to_frame(TABLES[table].empty_table())
