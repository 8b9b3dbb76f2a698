"""The lab and transformers compute the same model: recipe ``exact``, fp32 on both sides, 1,000 positions.

The bound is the noise of transformers itself: 4 times the largest difference between its chunk form and its token-by-token
form, which are two roundings of one function.
"""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.assets import trace_suite
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import request_paths
from tests.against_transformers import of_lab, of_transformers

pytest.importorskip("transformers")
POSITIONS = 1000
WAYS = {
    "one forward": (POSITIONS,),
    "pieces": (1, 300, 64, 1, 63, 129, 442),
    "token by token": (1,) * POSITIONS,
}


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    """Real conversations of the quick suite, one after the other."""
    longest = [
        max(request_paths(group), key=lambda path: path.end).tokens for group in read_groups(trace_suite("quick"))
    ]
    return [token for path in longest for token in path][: POSITIONS + 1]


def test_one_forward_pieces_and_single_tokens_agree_with_transformers(
    tokens: list[int], record_property: pytest.RecordProperty
) -> None:
    reference = {name: of_transformers(tokens, cuts) for name, cuts in WAYS.items()}
    noise = np.abs(reference["one forward"] - reference["token by token"]).max()
    assert 0 < noise < 1e-3, "transformers' two forms must be two roundings of one function"
    for name, cuts in WAYS.items():
        difference = np.abs(of_lab(tokens, cuts) - reference[name]).max()
        record_property(name, f"{difference:.3g} nat, {difference / noise:.2f} of the noise {noise:.3g}")
        print(f"{name}: largest difference {difference:.3g} nat; noise of transformers {noise:.3g}")
        assert difference <= 4 * noise, name
