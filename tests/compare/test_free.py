"""Which positions of two free runs are compared: as far as both arms have run the same tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from replaycheck.compare.free import shared_by_rows, shared_prefix
from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.compare.scored import Scored
from replaycheck.errors import InternalError

SAME, OTHER = b"same", b"other"


def said(branch: int, turn: int, first: int, tokens: Sequence[int], history: bytes | None = SAME) -> ScoredTurn:
    at = np.arange(first, first + len(tokens), dtype=np.int32)
    logits = np.zeros((len(tokens), 4), np.float32)
    return ScoredTurn("t", branch, turn, "t", at, np.array(tokens, np.int32), logits, 5, history=history)


def scored(*turns: ScoredTurn) -> Scored:
    return Scored.of(ArmRecording("arm", turns, ()))


def test_a_turn_counts_up_to_its_first_difference_and_a_turn_with_another_history_not_at_all() -> None:
    reference = scored(said(0, 0, 10, [1, 2, 3]), said(0, 1, 20, [1, 2, 3]), said(1, 1, 20, [3, 3]))
    candidate = scored(said(0, 0, 10, [1, 0, 3]), said(0, 1, 20, [1, 2, 3], OTHER), said(1, 1, 20, [3, 3]))
    assert shared_prefix("cell", reference, candidate).tolist() == [True, True, False, False, False, False, True, True]


def test_without_a_history_nothing_is_known_to_be_shared() -> None:
    reference, candidate = (scored(said(0, 0, 10, [1, 2], history)) for history in (None, None))
    assert not shared_prefix("cell", reference, candidate).any()


def test_arms_of_other_plans_are_refused() -> None:
    with pytest.raises(InternalError, match="one plan of lengths"):
        shared_prefix("cell", scored(said(0, 0, 10, [1])), scored(said(0, 0, 11, [1])))


def rows(*given: tuple[str, str, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(given, columns=["experiment", "trace", "position", "token_a", "token_b"])


def test_of_saved_runs_a_trace_is_kept_up_to_its_first_difference() -> None:
    found = rows(
        ("free", "t", 4, 1, 1),
        ("free", "t", 5, 1, 2),
        ("free", "t", 5, 1, 1),
        ("free", "t", 6, 1, 1),
        ("free", "u", 9, 1, 1),
        ("forced", "t", 7, 1, 1),
    )
    assert shared_by_rows(found).tolist() == [True, True, False, False, True, True]
