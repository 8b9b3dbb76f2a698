"""One cell over its traces: share, places on the grid, decay of the difference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from replaycheck.diagnose.across import across


def pairs(trace: str, begin: int, wrong: bool, half: float = 8.0, cell: str = "exact/x") -> pd.DataFrame:
    """40 positions from ``begin`` on, restored 5 tokens before; differences halve every ``half`` tokens."""
    offset = np.arange(5, 45)
    return pd.DataFrame(
        {
            "cell": cell,
            "trace": trace,
            "turn": 1,
            "position": begin + np.arange(40),
            "dlogp": 0.5 ** (offset / half) if wrong else 0.0,
            "bits_equal": not wrong,
            "offset_from_restore": offset,
        }
    )


def test_share_places_and_half_life() -> None:
    parts = [
        pairs("a", 100, True),
        pairs("b", 164, True),
        pd.concat([pairs("c", 90, False), pairs("c", 9, True, cell="y")]),
    ]
    found = across("exact/x", parts)
    assert (found.traces, found.showing) == (3, 2) and found.share == pytest.approx(2 / 3)
    assert found.residues == ((36, 2),)
    assert found.fading.value == pytest.approx(8)
    assert found.sizes[0][0] == 5 and found.sizes[-1][0] == 44
    text = " ".join(found.lines())
    assert "2 of 3 traces" in text and "modulo 64 (traces): 36 (2)" in text and "halves in 8 tokens" in text


def test_a_difference_that_stays_has_no_half_life() -> None:
    found = across("exact/x", [pairs("a", 70, True, half=np.inf)])
    assert found.fading.value is None
    assert any("it doesn't fade" in line for line in found.lines())


def test_two_offsets_say_nothing_of_fading() -> None:
    (text,) = [line for line in across("exact/x", [pairs("a", 70, True)[:2]]).lines() if "nat" in line]
    assert "fade" not in text and "halves" not in text


def test_a_cell_that_is_right_or_not_there_says_so_little() -> None:
    right = across("exact/x", [pairs("a", 70, False)])
    assert (right.traces, right.showing, right.sizes) == (1, 0, ())
    assert list(right.lines()) == ["it shows in 0 of 1 traces of the cell"]
    assert across("exact/x", []).share == 0.0
