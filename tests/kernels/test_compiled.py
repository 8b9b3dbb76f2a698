"""The compiled recurrence turns states in tiles: widths that aren't multiples of the tile are turned element by element."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck_kernels.compiled import _turn


@pytest.mark.parametrize("shape", [(8, 8), (16, 24), (13, 20), (20, 13), (3, 5), (8, 9), (9, 8), (1, 1)], ids=str)
def test_a_state_of_any_width_is_turned(shape: tuple[int, int]) -> None:
    a = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    b = np.full(shape[::-1], np.nan, np.float32)
    _turn(a, b)
    assert np.array_equal(b, a.T)
