"""One vote a trace: closed forms, what counts as a vote, and size and power where hazards are known."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

from replaycheck.errors import InternalError
from replaycheck.stats.signs import SignTest, first_to_part, mcnemar, sign_test, votes


def test_the_sign_test_is_statsmodels_exact_mcnemar() -> None:
    """docs/statistics.md: 18 against 40 gives .0054."""
    assert sign_test(18, 40).p == pytest.approx(float(mcnemar_of_statsmodels([[0, 18], [40, 0]], exact=True).pvalue))
    assert sign_test(18, 40).p == pytest.approx(0.0054, abs=5e-5)


def test_five_to_nothing_is_one_in_sixteen() -> None:
    assert sign_test(5, 0).p == pytest.approx(2 / 32)
    assert sign_test(0, 0) == SignTest(0, 0, 0, 0, 1)


def test_ties_are_counted_and_do_not_vote() -> None:
    assert votes(np.array([0.1, -3.0, 0.0, 2.0])) == SignTest(2, 1, 1, 0, 1.0)


def test_a_trace_votes_once_however_many_positions_it_lost() -> None:
    found = mcnemar(np.array([100, 0, 0, 3]), np.array([0, 1, 1, 3]))
    assert (found.a, found.b, found.ties, found.n) == (1, 2, 1, 3)


def test_which_arm_parted_first() -> None:
    yes, no = True, False
    cases = [  # a, censored, b, censored, who
        (10, no, 20, no, "a"),
        (20, no, 10, no, "b"),
        (10, no, 10, no, "tie"),
        (10, no, 10, yes, "a"),  # b was seen without a divergence at 10
        (10, no, 9, yes, "undecided"),  # b might have parted at 10 or later, or never
        (9, yes, 10, no, "undecided"),
        (30, yes, 10, no, "b"),
        (10, yes, 10, no, "b"),
        (10, yes, 30, yes, "undecided"),
    ]
    for a, a_censored, b, b_censored, who in cases:
        found = first_to_part(*(np.array([each]) for each in (a, a_censored, b, b_censored)))
        counts = {"a": found.a, "b": found.b, "tie": found.ties, "undecided": found.undecided}
        assert counts == {**dict.fromkeys(counts, 0), who: 1}


def rejected(ratio: float, seed: int) -> float:
    """Share of 500 pairs of arms over 64 traces, with a common frailty and an end at 1,024 tokens, that are told apart."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(500):
        frailty = rng.gamma(2, 0.5, 64)
        a, b = (np.ceil(rng.exponential(mean, 64) / frailty).astype(np.int64) for mean in (1000, 1000 / ratio))
        arms = [each for time in (a, b) for each in (np.minimum(time, 1024), time > 1024)]
        found.append(first_to_part(*arms).p < 0.05)
    return float(np.mean(found))


def test_size_and_power_at_a_hazard_ratio_of_two_and_a_half() -> None:
    """A first simulation had .035 and .85. Three standard deviations of 500 replicates are .025 and .048."""
    assert 0.01 <= rejected(1, 0) <= 0.06
    assert rejected(2.5, 1) >= 0.8


def test_arms_of_other_traces_are_refused() -> None:
    with pytest.raises(InternalError, match="same traces"):
        mcnemar(np.zeros(2, np.int64), np.zeros(3, np.int64))
