"""What is kept of many restores: extremes, counts, and the rows that a diagnosis needs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from replaycheck.compare.restore_sums import RestoreSums
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.frames import to_arrow
from tests import synthetic_run as syn

_, CELLS = syn.arms_and_cells(PoolDtype.BF16)
EXACT, STATE = (syn.effect(CELLS, effect).name for effect in (Effect.EXACT, Effect.STATE))


def restores(*rows: dict[str, Any]) -> pa.Table:
    """RESTORES rows of one layer and head without an error, each with what it says otherwise."""
    usual = {
        "cell": EXACT, "trace": "t", "restore": "0/1@26", "layer": 0, "head": 0, "rel_error": 0.0, "max_error": 0.0,
        "one_cast_error": 0.0, "bf16_share": None, "conv_equal": True, "label": "final", "dtype": "bf16",
    }  # fmt: skip
    return to_arrow("restores", pd.DataFrame([usual | row for row in rows]))


def kept(sums: RestoreSums) -> list[tuple[str, str, int]]:
    frame = sums.evidence
    return list(zip(frame["trace"], frame["restore"], frame["layer"], strict=True))


def test_of_a_clean_run_one_row_a_place_is_kept() -> None:
    sums = RestoreSums(CELLS)
    sums.add(restores({}, {"layer": 2}, {"restore": "0/2@46"}, {"restore": "0/2@46", "layer": 2}))
    sums.add(restores({"trace": "u"}, {"trace": "u", "layer": 2}))
    assert kept(sums) == [("t", "0/1@26", 0), ("t", "0/1@26", 2)]


def test_the_first_faulty_rows_of_each_trace_are_kept_by_position_and_not_by_name() -> None:
    sums = RestoreSums(CELLS)
    sums.add(restores({}, {"layer": 2}))
    late, early = "0/10@126", "0/9@106"  # as names, 0/10 comes first
    bad = {"trace": "u", "max_error": 1.0}
    sums.add(restores(bad | {"restore": late}, bad | {"restore": early}, bad | {"restore": early, "layer": 2}))
    assert kept(sums) == [("t", "0/1@26", 0), ("t", "0/1@26", 2), ("u", early, 0), ("u", early, 2)]


def test_rows_of_other_effects_are_summed_and_not_kept() -> None:
    sums = RestoreSums(CELLS)
    sums.add(restores({"cell": STATE, "rel_error": 0.5, "max_error": 2.0}))
    assert sums.evidence.empty
    assert list(sums.evidence.columns) == restores({}).column_names
    assert sums.numbers(STATE)["restore_max_error"] == 2.0


def test_a_conv_state_that_differs_counts_once_a_restore() -> None:
    sums = RestoreSums(CELLS)
    unequal = {"conv_equal": False}
    sums.add(restores(unequal, unequal | {"head": 1}, unequal | {"layer": 2}, {"restore": "0/2@46"}))
    sums.add(restores(unequal | {"trace": "u"}))
    assert sums.numbers(EXACT)["conv_unequal"] == 2


def test_without_rows_there_is_nothing_to_say() -> None:
    sums = RestoreSums(CELLS)
    sums.add(restores({})[:0])
    assert sums.evidence.empty
    assert sums.conv == ()
