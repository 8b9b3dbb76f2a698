"""Many cells: adjusted p values against statsmodels, false discoveries under dependence, and the fixed sequence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from replaycheck.stats.many import Step, benjamini_yekutieli, fixed_sequence

SEQUENCE = ("kernel", "state", "logits", "tokens")


def test_three_planted_among_69_nulls() -> None:
    """Raw p < .05 flags 7, Benjamini-Yekutieli 2."""
    p = np.concatenate([[1e-5, 2e-4, 4e-3], np.linspace(0.015, 1, 69)])
    assert (p < 0.05).sum() >= 6
    assert (benjamini_yekutieli(p) < 0.1).sum() == 2
    # A sum of 72 fractions, one factor and one division: 1e-14.
    assert benjamini_yekutieli(p) == pytest.approx(multipletests(p, method="fdr_by")[1], rel=1e-14)


def test_false_discoveries_stay_under_q_when_cells_share_traces() -> None:
    """All null and with a common part: any discovery is a false one."""
    rng, any_found, any_raw = np.random.default_rng(0), [], []
    for _ in range(300):
        z = 0.7 * rng.normal() + np.sqrt(0.51) * rng.normal(size=72)
        p = 2 * stats.norm.sf(np.abs(z))
        any_found.append((benjamini_yekutieli(p) < 0.05).any())
        any_raw.append((p < 0.05).any())
    assert np.mean(any_found) <= 0.05
    assert np.mean(any_raw) > 0.5


def test_no_cells_no_p_values() -> None:
    assert len(benjamini_yekutieli(np.array([]))) == 0


def test_the_first_that_does_not_pass_ends_the_sequence() -> None:
    found = fixed_sequence(dict(zip(SEQUENCE, [True, False, True, True], strict=True)))
    assert list(found) == ["kernel", "state", "logits", "tokens"]
    assert list(found.values()) == [Step.PASSED, Step.NOT_PASSED, Step.NOT_JUDGED, Step.NOT_JUDGED]
    assert set(fixed_sequence(dict.fromkeys(SEQUENCE, True)).values()) == {Step.PASSED}
    assert fixed_sequence({}) == {}


def test_a_sequence_at_full_level_errs_at_most_that_often() -> None:
    """Four true nulls tested in order at 5 %: an error needs the first to err."""
    p = np.random.default_rng(1).random((4000, 4))
    erred = [Step.PASSED in fixed_sequence(dict(zip(SEQUENCE, row < 0.05, strict=True))).values() for row in p]
    assert abs(np.mean(erred) - 0.05) < 3 * 0.0035
