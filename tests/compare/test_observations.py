"""What is recorded of a position, against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from replaycheck.compare.logits import digests, kl, log_softmax, margins, top1
from replaycheck.compare.record import ArmRecording
from replaycheck.compare.said import TOP
from replaycheck.schema.arm import Compiler
from replaycheck.schema.frames import to_frame
from replaycheck.schema.tables import OBSERVATIONS
from tests import synthetic_run as syn
from tests.compare.tables import observe


def one_turn(logits: np.ndarray, restore: int | None = None) -> pd.DataFrame:
    n = len(logits)
    turn = replace(
        syn.turns(warm=False)[0],
        logits=logits.astype(np.float32),
        positions=np.arange(n, dtype=np.int32) + 10,
        tokens=np.zeros(n, dtype=np.int32),
        restore=restore,
    )
    return to_frame(observe(ArmRecording("arm", (turn,), ())))


def test_log_probabilities_of_known_odds() -> None:
    row = one_turn(np.log(np.array([[1.0, 2.0, 5.0]]))).iloc[0]
    # The logits are fp32: their rounding, 2^-24 of log 5, is all that is between them and the closed form.
    assert math.isclose(row["logprob"], math.log(1 / 8), abs_tol=2**-22)
    assert math.isclose(row["top1_logprob"], math.log(5 / 8), abs_tol=2**-22)
    assert math.isclose(row["margin"], math.log(5 / 2), abs_tol=2**-22)
    assert row["top1"] == 2


def test_equal_logits_give_the_lowest_id_and_no_margin() -> None:
    row = one_turn(np.array([[1.0, 3.0, 3.0, 0.0]])).iloc[0]
    assert row["top1"] == 1
    assert row["margin"] == 0
    assert [entry["id"] for entry in row["top20"]] == [1, 2, 0, 3]


def test_at_most_twenty_alternatives_best_first() -> None:
    logits = np.random.default_rng(0).normal(size=(1, 50))
    kept = one_turn(logits).iloc[0]["top20"]
    assert [entry["id"] for entry in kept] == list(np.argsort(-logits[0])[:TOP])


def test_offset_is_counted_from_the_restore_and_null_without_one() -> None:
    assert list(one_turn(np.zeros((2, 3)), restore=8)["offset_from_restore"]) == [2, 3]
    assert one_turn(np.zeros((2, 3)))["offset_from_restore"].isna().all()


def test_a_row_with_a_nan_has_no_numbers_but_a_digest() -> None:
    row = one_turn(np.array([[np.nan, 1.0, 0.0]])).iloc[0]
    assert row[["logprob", "top1_logprob", "margin", "top1"]].isna().all()
    assert len(row["logits_digest"]) == 16


def test_digest_tells_minus_zero_from_zero() -> None:
    zero, minus = digests(np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32))
    assert zero != minus


def test_numbers_do_not_depend_on_the_block_a_row_is_in() -> None:
    logits = np.random.default_rng(0).normal(size=(37, 1000)).astype(np.float32)
    together = log_softmax(logits)
    alone = np.concatenate([log_softmax(row[None]) for row in logits])
    assert np.array_equal(together, alone)


def test_kl_of_two_coins() -> None:
    a, b = np.log(np.array([[0.5, 0.5]])), np.log(np.array([[0.25, 0.75]]))
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert math.isclose(kl(a, b)[0], expected, rel_tol=1e-14)  # a few units of float64's 1.1e-16


def test_kl_of_a_tiny_difference_keeps_its_digits() -> None:
    """KL of logits z and z + e·d is e²/2 · Var(d) for small e; the plain sum has noise of 1e-16 / 1e-14 there."""
    z = np.random.default_rng(0).normal(size=(1, 64))
    d = np.random.default_rng(1).normal(size=(1, 64))
    e = 1e-7
    p = np.exp(z) / np.exp(z).sum()
    expected = e**2 / 2 * float((p * d**2).sum() - (p * d).sum() ** 2)

    def normal(x: np.ndarray) -> np.ndarray:
        return x - np.log(np.exp(x).sum())

    # float64 log-probabilities carry 2e-16 absolute, 2e-9 of e.
    assert math.isclose(kl(normal(z), normal(z + e * d))[0], expected, rel_tol=1e-6)


def test_kl_with_a_masked_token() -> None:
    masked, fair = np.array([[-np.inf, 0.0]]), np.log(np.array([[0.5, 0.5]]))
    assert math.isclose(kl(masked, fair)[0], math.log(2), rel_tol=1e-15)
    assert kl(fair, masked)[0] == np.inf


def test_margin_and_top1_of_rows_without_a_distribution() -> None:
    logits = np.array([[np.nan, 0], [np.inf, 0], [-np.inf, -np.inf], [1, 0]], dtype=np.float32)
    assert list(top1(logits)) == [-1, -1, -1, 0]
    assert list(np.isnan(margins(logits))) == [True, True, True, False]


def test_columns_are_those_of_the_contract() -> None:
    table = observe(syn.recording(syn.arm(Compiler.WARM)))
    assert table.schema.equals(OBSERVATIONS)
    assert observe(ArmRecording("empty", (), ())).schema.equals(OBSERVATIONS)
