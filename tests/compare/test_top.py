"""What a subject without logits says: missing is missing, NaN is a finding, equal is never proven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from replaycheck.compare.cell_sums import CellSums
from replaycheck.compare.divergence import divergences
from replaycheck.compare.gaps import add_gaps, gaps_of
from replaycheck.compare.pairs import pair
from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.compare.spill import Spill
from replaycheck.compare.top import TOP, Entry, TopLogprobs, joined
from replaycheck.errors import InternalError
from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.gaps import Where
from tests.compare.tables import observe

CELL = Cell(effect=Effect.TOTAL, reference="cold/x", candidate="warm/x")
BEST = {7: -0.1, 3: -2.0, 5: -3.0}


def turn(entries: list[Entry | None], tokens: list[int], restore: int | None = None) -> ScoredTurn:
    n = len(tokens)
    return ScoredTurn(
        "t",
        0,
        0,
        "c",
        np.arange(10, 10 + n, dtype=np.int32),
        np.array(tokens, np.int32),
        np.empty((n, 0), np.float32),
        restore,
        top=TopLogprobs.of(entries),
    )


def arms(cold: list[Entry | None], warm: list[Entry | None]) -> tuple[ArmRecording, ArmRecording]:
    tokens = [3] * len(cold)
    return ArmRecording("cold/x", (turn(cold, tokens),), ()), ArmRecording("warm/x", (turn(warm, tokens, 8),), ())


def test_best_tokens_are_sorted_and_ties_go_to_the_lowest_id() -> None:
    top = TopLogprobs.of([(-1.0, {9: -1.0, 2: -1.0, 4: -0.5})])
    assert top.ids[0].tolist() == [4, 2, 9]
    assert top.best.tolist() == [4]
    assert top.margin[0] == 0.5


@pytest.mark.parametrize("entry", [None, (0.0, {}), (None, {})])
def test_an_entry_without_best_tokens_is_missing_whatever_stands_beside_it(entry: Entry | None) -> None:
    top = TopLogprobs.of([entry])
    assert top.missing.tolist() == [True]
    assert np.isnan(top.token[0])
    assert top.best.tolist() == [-1]


def test_a_token_that_is_not_among_the_best_is_missing_and_the_best_are_there() -> None:
    top = TopLogprobs.of([(None, BEST)])
    assert top.missing.tolist() == [True]
    assert top.best.tolist() == [7]


def test_packing_keeps_every_bit() -> None:
    top = joined(
        [TopLogprobs.of([(-1e-300, BEST), None]), TopLogprobs.of([(float("nan"), {1: float("nan"), 2: -1.0})])]
    )
    again = TopLogprobs.unpacked(top.packed())
    for name in ("token", "ids", "logprobs", "missing"):
        assert np.array_equal(getattr(top, name), getattr(again, name), equal_nan=name in ("token", "logprobs"))
    assert again.ids.shape == (3, TOP)


def test_equal_answers_are_not_proven_equal_and_others_differ() -> None:
    rows = pair(CELL, *arms([(-2.0, BEST), (-2.0, BEST)], [(-2.0, BEST), (-2.5, {3: -0.2, 7: -1.0})])).to_pylist()
    assert [row["bits_equal"] for row in rows] == [None, False]
    assert [row["dlogp"] for row in rows] == [0.0, -0.5]
    assert [row["flip"] for row in rows] == [False, True]
    assert [row["kl"] for row in rows] == [None, None]
    assert rows[0]["margin"] == pytest.approx(1.9)


def test_missing_is_null_and_nan_is_nan() -> None:
    nan = float("nan")
    rows = pair(CELL, *arms([(-2.0, BEST), (-2.0, BEST)], [None, (nan, {7: nan})])).to_pylist()
    assert (rows[0]["dlogp"], rows[0]["flip"], rows[0]["bits_equal"]) == (None, None, None)
    assert np.isnan(rows[1]["dlogp"])
    assert (rows[1]["flip"], rows[1]["bits_equal"]) == (None, False)


def test_sums_keep_missing_and_not_finite_apart(tmp_path: object) -> None:
    nan = float("nan")
    rows = pair(CELL, *arms([(-2.0, BEST)] * 3, [None, (nan, {7: nan}), (-2.0, BEST)]))
    with Spill(tmp_path) as spill:  # type: ignore[arg-type]
        sums = CellSums([CELL.name], spill)
        sums.add(rows, "part")
        found = dict(sums.numbers())[CELL.name]
    assert (found["positions"], found["missing"], found["not_finite"], found["bits_differ"]) == (3, 1, 1, 1)


def test_what_was_not_said_does_not_diverge() -> None:
    cold, warm = arms([(-2.0, BEST)] * 2, [None, (-2.0, BEST)])
    rows = pair(CELL, cold, warm)
    seen = pa.concat_tables([observe(cold), observe(warm)])
    assert all(row["censored"] for row in divergences(rows, seen, [CELL]).to_pylist())


def test_observations_have_null_where_nothing_was_said() -> None:
    rows = observe(arms([(-2.0, BEST), None], [None, None])[0]).to_pylist()
    assert rows[0]["top20"] == [{"id": 7, "logprob": -0.1}, {"id": 3, "logprob": -2.0}, {"id": 5, "logprob": -3.0}]
    assert rows[0]["logits_digest"] is None
    assert (rows[1]["logprob"], rows[1]["top1"], rows[1]["top20"]) == (None, None, None)


def test_logits_and_log_probabilities_do_not_mix() -> None:
    partial = turn([(-2.0, BEST)], [3])
    whole = ScoredTurn("t", 0, 1, "c", partial.positions, partial.tokens, np.zeros((1, 4), np.float32), None)
    with pytest.raises(InternalError, match="record one kind"):
        observe(ArmRecording("cold/x", (partial, whole), ()))


def chosen(tokens: list[int]) -> TopLogprobs:
    return TopLogprobs.of([None] * len(tokens), tokens)


def test_a_chosen_token_is_the_best_where_no_number_was_said() -> None:
    top = TopLogprobs.of([None, (-2.0, BEST), (float("nan"), {7: float("nan")})], [4, 4, 4])
    assert top.best.tolist() == [4, 7, -1]
    assert np.isnan(top.best_logprob[[0, 2]]).all() and np.isnan(top.margin[0])
    wide = joined([top, chosen([9])])
    assert wide.best.tolist() == TopLogprobs.unpacked(wide.packed()).best.tolist() == [4, 7, -1, 9]
    assert wide[np.array([3, 0])].chosen.tolist() == [9, 4]


def test_tokens_without_numbers_are_counted_and_have_no_size(tmp_path: object) -> None:
    sides = [
        ArmRecording(name, (replace(turn([None] * 4, [3] * 4, restore), top=top),), ())
        for name, top, restore in (
            ("cold/x", chosen([5, 5, 5, 5]), None),
            ("warm/x", TopLogprobs.of([None, None, None, (-2.0, BEST)], [5, 6, -1, 5]), 8),
        )
    ]
    rows = pair(CELL, *sides)
    assert rows["dlogp"].null_count == rows["bits_equal"].null_count == 4
    assert rows["flip"].to_pylist() == [False, True, None, True]
    with Spill(tmp_path) as spill:  # type: ignore[arg-type]
        sums = CellSums([CELL.name], spill)
        sums.add(rows, "part")
        found = dict(sums.numbers())[CELL.name]
    assert (found["missing"], found["unsized"], found["unsized_flips"], found["flips"]) == (4, 3, 2, 2)
    assert found["first_unsized_flip"] == Where(trace="t", branch=0, turn=0, position=11)
    seen = pa.concat_tables([observe(side) for side in sides])
    first = next(row for row in divergences(rows, seen, [CELL]).to_pylist() if row["kind"] == "argmax")
    assert (first["censored"], first["position"], first["token_a"], first["token_b"]) == (False, 11, 5, 6)


def test_gaps_have_their_first_place_and_add_up_in_order() -> None:
    nan = float("nan")
    late = gaps_of([turn([(-2.0, BEST), None, (nan, {7: nan}), None], [3] * 4)])
    assert late is not None
    assert (late.missing, late.nan) == (2, 1)
    assert late.first_missing == Where(trace="t", branch=0, turn=0, position=11)
    assert late.first_nan == Where(trace="t", branch=0, turn=0, position=12)
    assert gaps_of([turn([(-2.0, BEST)], [3])]) is None
    early = gaps_of([replace(turn([None], [3]), trace="s")])
    both = add_gaps(early, late)
    assert both is not None and both.first_missing == early.first_missing and both.first_nan == late.first_nan
    assert (both.missing, both.nan) == (3, 1)
    assert add_gaps(None, late) == add_gaps(late, None) == late


def test_a_nan_among_logits_is_one_and_an_infinity_of_a_masked_token_is_not() -> None:
    logits = np.zeros((3, 4), np.float32)
    logits[0, 1], logits[2, 3] = -np.inf, np.nan
    found = gaps_of([replace(turn([None] * 3, [1] * 3), logits=logits, top=None)])
    assert found is not None and (found.nan, found.missing) == (1, 0)
    assert found.first_nan == Where(trace="t", branch=0, turn=0, position=12)
