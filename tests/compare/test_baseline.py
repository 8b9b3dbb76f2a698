"""No worse than the baseline, one cell: what passes, what fails, what is undecided, and how often each is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.compare.baseline import MIN_TRACES, CellTraces, Margin, judge_cell
from replaycheck.schema.arm import Effect
from replaycheck.schema.comparison import BaselineCell

MARGIN = Margin(1e-3, "for the test")


def traces(apart: np.ndarray, differ: np.ndarray | None = None, clusters: list[str] | None = None) -> CellTraces:
    n = len(apart)
    names = tuple(f"t{i}" for i in range(n))
    none = np.zeros(n, np.int64)
    return CellTraces(names, tuple(clusters or names), apart, none + 9 if differ is None else differ, none)


def noisy(n: int, shift: float, seed: int = 0) -> tuple[CellTraces, CellTraces]:
    """Trace means of 1e-2 nat on average; the new ones have noise of their own and are larger by ``shift``."""
    rng = np.random.default_rng(seed)
    old = rng.lognormal(np.log(1e-2), 0.5, n)
    return traces(old), traces(old * rng.normal(1, 0.1, n) + shift)


def judged(old: CellTraces, new: CellTraces, cells: int = 1, **options: object) -> BaselineCell:
    return judge_cell("total/x", Effect.TOTAL, old, new, MARGIN, cells, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "shift", "verdict"),
    [(64, 0.0, "pass"), (64, -2e-3, "pass"), (64, 3e-3, "fail"), (6, 0.0, "inconclusive"), (6, 9e-3, "fail"),
     (64, 1e-3, "inconclusive")],
)  # fmt: skip
def test_the_difference_of_traces_decides(n: int, shift: float, verdict: str) -> None:
    found = judged(*noisy(n, shift))
    assert (found.verdict, found.traces, found.mode) == (verdict, n, "statistical")


def test_equal_numbers_pass_however_few() -> None:
    (old, _) = noisy(1, 0.0)
    assert judged(old, old).verdict == "pass"


@pytest.mark.parametrize(("n", "verdict"), [(MIN_TRACES - 1, "inconclusive"), (MIN_TRACES, "pass")])
def test_under_the_least_number_of_traces_nothing_passes(n: int, verdict: str) -> None:
    found = judged(*noisy(n, -5e-3))
    assert found.verdict == verdict
    assert (found.traces_needed is not None) is (verdict == "inconclusive")


def test_traces_that_share_text_count_once() -> None:
    old, new = noisy(64, 0.0)
    clusters = [f"c{i // 16}" for i in range(64)]
    assert judged(old, new).verdict == "pass"
    assert judged(traces(old.apart, clusters=clusters), new).verdict == "inconclusive"


def test_the_order_of_traces_does_not_matter() -> None:
    old, new = noisy(64, 3e-3)
    assert judged(old, new.take(tuple(reversed(new.trace)))) == judged(old, new)


@pytest.mark.parametrize(("count", "verdict"), [(0, "pass"), (1, "fail")])
def test_where_nothing_differed_nothing_may(count: int, verdict: str) -> None:
    same, one = np.zeros(3), np.array([0, count, 0])
    found = judged(traces(same, np.zeros(3, np.int64)), traces(same, one), zero=True)
    assert (found.verdict, found.mode, found.new.value) == (verdict, "exact-zero", count)
    assert found.worst_trace == ("t1" if count else None)


def test_a_log_probability_that_is_lost_fails() -> None:
    old, new = noisy(64, 0.0)
    lost = CellTraces(new.trace, new.cluster, new.apart, new.differ, np.eye(64, dtype=np.int64)[5])
    found = judged(old, lost)
    assert (found.verdict, found.worst_trace) == ("fail", "t5")
    assert judged(lost, lost).verdict == "pass"


@pytest.mark.parametrize("why", ["no hit", ""], ids=["vacuous cell", "no common trace"])
def test_what_compares_nothing_is_vacuous(why: str) -> None:
    old, new = noisy(64, 0.0)
    other = CellTraces(tuple(f"u{i}" for i in range(64)), new.cluster, new.apart, new.differ, new.not_finite)
    found = judged(old, old if why else other, vacuous=why, zero=True)
    assert (found.verdict, found.traces) == ("vacuous", 0)


def test_a_run_without_change_rarely_fails_and_a_worse_one_rarely_passes() -> None:
    """Size over 400 draws at the margin itself: 5 % each side, and 0.05 / 80 for the failure of one cell among 80.

    3.3 standard deviations of a proportion of 5 % in 400 are 3.6 %.
    """
    at_margin = [judged(*noisy(64, MARGIN.nat, seed)).verdict for seed in range(400)]
    assert at_margin.count("pass") / 400 < 0.05 + 0.036
    assert at_margin.count("fail") / 400 < 0.05 + 0.036
    unchanged = [judged(*noisy(64, 0.0, seed), cells=80).verdict for seed in range(400)]
    assert unchanged.count("fail") == 0
    assert unchanged.count("pass") / 400 > 0.9
