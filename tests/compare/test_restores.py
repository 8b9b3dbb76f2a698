"""Restored states against the live ones: one direct cast is recognised, and anything else isn't taken for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from replaycheck.compare.casts import BF16_UNIT, cast
from replaycheck.compare.record import StateAt
from replaycheck.compare.restores import LARGEST
from replaycheck.errors import InternalError
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.frames import to_frame
from tests import synthetic_run as syn
from tests.compare.tables import compare_restores


def rows(effect: Effect, pool: PoolDtype, change: dict[str, object] | None = None) -> pd.DataFrame:
    """RESTORES of a cell whose first restore of warm has fields changed."""
    arms, cells = syn.arms_and_cells(pool)
    cell, found = syn.effect(cells, effect), syn.recordings(arms)
    warm = found[cell.candidate]
    first: StateAt = replace(warm.restores[0], **(change or {}))  # type: ignore[arg-type]
    changed = replace(warm, restores=(first, *warm.restores[1:]))
    return to_frame(compare_restores(cell, found[cell.reference], changed))


def stored(pool: PoolDtype) -> np.ndarray:
    return syn.states(pool, stored=True)[0].temporal.copy()


@pytest.mark.parametrize("pool", list(PoolDtype))
def test_exact_cell_has_no_error(pool: PoolDtype) -> None:
    assert rows(Effect.EXACT, pool)["max_error"].max() == 0


@pytest.mark.parametrize("pool", list(PoolDtype))
def test_state_cell_has_the_error_of_one_cast(pool: PoolDtype) -> None:
    found = rows(Effect.STATE, pool)
    assert (found["rel_error"] == found["one_cast_error"]).all()
    assert (found["rel_error"] <= (BF16_UNIT if pool is not PoolDtype.FP32 else 0)).all()
    assert len(found) == 3 * (syn.TURNS - 1) * len(syn.LAYERS) * syn.HEADS


def test_a_second_rounding_exceeds_one_cast_and_shows_in_the_bits() -> None:
    twice = cast(cast(syn.states(PoolDtype.FP16, stored=False)[0].temporal, PoolDtype.BF16), PoolDtype.FP16)
    first = rows(Effect.STATE, PoolDtype.FP16, {"temporal": twice}).query("trace == 'a' and restore == '0/1@26'")
    assert (first["rel_error"] > 4 * first["one_cast_error"]).all()  # theory: 1.66e-3 against 2.08e-4, 8 times
    assert (first["bf16_share"] == 1).all()


def test_one_element_of_one_head_is_seen_there_only() -> None:
    state = stored(PoolDtype.BF16)
    state[1, 0, 3, 3] += 0.5
    found = rows(Effect.EXACT, PoolDtype.BF16, {"temporal": state})
    wrong = found[found["max_error"] > 0]
    assert wrong[["trace", "restore", "layer", "head"]].to_numpy().tolist() == [["a", "0/1@26", 2, 0]]
    assert wrong["max_error"].iloc[0] == 0.5


def test_conv_bytes_are_compared_per_layer() -> None:
    conv = syn.states(PoolDtype.FP32, stored=True)[0].conv.copy()
    conv[1, 0] ^= 1
    found = rows(Effect.EXACT, PoolDtype.FP32, {"conv": conv})
    assert set(found.loc[~found["conv_equal"], "layer"]) == {2}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_error_without_a_size_is_the_largest_number(bad: float) -> None:
    state = stored(PoolDtype.FP32)
    state[0, 0, 0, 0] = bad
    assert rows(Effect.EXACT, PoolDtype.FP32, {"temporal": state})["max_error"].max() == LARGEST


def test_a_zero_state_that_is_restored_as_zero_has_no_error() -> None:
    arms, cells = syn.arms_and_cells()
    cell, found = syn.effect(cells, Effect.EXACT), syn.recordings(arms)
    zero = [
        replace(found[name], restores=(replace(found[name].restores[0], temporal=np.zeros((2, 2, 16, 16), "f4")),))
        for name in (cell.reference, cell.candidate)
    ]
    assert list(to_frame(compare_restores(cell, *zero))["rel_error"]) == [0, 0, 0, 0]


def test_a_restore_without_counterpart_is_our_error() -> None:
    with pytest.raises(InternalError, match="no live state"):
        rows(Effect.EXACT, PoolDtype.FP32, {"position": 99})


def test_cold_and_grid_cells_have_no_restores() -> None:
    assert rows(Effect.TOTAL, PoolDtype.FP32).empty
    arms, cells = syn.arms_and_cells()
    cell, found = syn.effect(cells, Effect.GRID), syn.recordings(arms)
    assert compare_restores(cell, found[cell.reference], found[cell.candidate]).num_rows == 0
