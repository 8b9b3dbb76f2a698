"""Rows of a run's tables: key order on disk whatever order they came in, and nulls that stay nulls in pandas."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from replaycheck.schema.frames import KEYS, decoded, empty_frame, in_order, plain, to_arrow, to_frame
from replaycheck.schema.tables import TABLES

RESTORES: dict[str, list[Any]] = {
    "cell": ["b", "a", "a"], "trace": ["t", "u", "t"], "restore": ["0/1@4"] * 3, "layer": [0, 0, 0], "head": [0, 1, 0],
    "rel_error": [0.5, None, float("nan")], "max_error": [0.0] * 3, "one_cast_error": [0.0] * 3,
    "bf16_share": [None] * 3, "conv_equal": [True, False, True], "label": ["final"] * 3, "dtype": ["bf16"] * 3,
}  # fmt: skip


def test_rows_are_written_in_key_order_with_their_types() -> None:
    table = to_arrow("restores", RESTORES)
    assert table.schema.equals(TABLES["restores"])
    frame = to_frame(table)
    assert list(zip(frame["cell"], frame["trace"], strict=True)) == [("a", "t"), ("a", "u"), ("b", "t")]
    assert list(frame["conv_equal"]) == [True, False, True]


def test_nan_and_none_are_null() -> None:
    assert to_arrow("restores", RESTORES)["rel_error"].null_count == 2


def test_equal_rows_are_equal_bytes_in_whatever_order_and_parts_they_come() -> None:
    whole = to_arrow("restores", RESTORES)
    frame = pd.DataFrame(RESTORES)
    parts = [plain("restores", frame.iloc[[2]]), plain("restores", frame.iloc[[1, 0]])]
    assert in_order("restores", parts).equals(whole)
    assert in_order("restores", [decoded(whole)]).equals(whole)


def test_offsets_that_are_not_known_stay_integers() -> None:
    frame = empty_frame("divergences")
    assert str(frame["offset_from_restore"].dtype) == "Int32"
    row = {name: pd.Series([0]) for name in TABLES["divergences"].names}
    row |= {name: pd.Series(["x"]) for name in ("cell", "trace", "experiment", "kind")}
    row |= {"offset_from_restore": pd.Series([None], dtype="Int32"), "censored": pd.Series([True])}
    found = to_frame(to_arrow("divergences", row))
    assert found["offset_from_restore"].isna().tolist() == [True]
    assert str(found["offset_from_restore"].dtype) == "Int32"


@pytest.mark.parametrize("table", list(KEYS))
def test_a_table_without_rows_keeps_its_columns(table: str) -> None:
    assert in_order(table, []).schema.equals(TABLES[table])
    assert list(empty_frame(table).columns) == TABLES[table].names
