"""Metrics over F_num on a few traces: the ratio with its margins, tails and flips, without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from replaycheck.gates.equivalence import _decided, paired
from replaycheck.gates.measured import Measured
from replaycheck.gates.metrics import METRICS
from replaycheck.gates.sums import sum_traces
from replaycheck.schema.floor import Control, Measure
from replaycheck.schema.gate import Gate
from replaycheck.stats.equivalence import Equivalence, Reading, tost_ratio
from replaycheck.stats.estimate import Estimated
from replaycheck.stats.intervals import proportion
from tests.gates.pieces import cell, estimate, evidence, gate, measure
from tests.gates.test_tables import PAIR, Blocks, pairs

NAMES = [f"t{at}" for at in range(8)]
NOISE = dict(zip(NAMES, [0.9, 1.1, 1.0, 0.8, 1.2, 1.05, 0.95, 1.0], strict=True))


def rows(factor: float, cell: str = "state/x", **more: Any) -> list[dict[str, Any]]:
    """A trace each, whose root mean square is ``factor`` times its noise, nearly."""
    wobble = np.linspace(0.97, 1.03, 8)
    return [PAIR | {"cell": cell, "trace": name, "cluster": name, "dlogp": factor * NOISE[name] * wobble[at]} | more
            for at, name in enumerate(NAMES)]  # fmt: skip


def ratio(
    of: list[dict[str, Any]], *measures: Measure, cells: Any = None, factor: float = 1.5, **more: Any
) -> Measured:
    looked_at = evidence(cells or [cell()], measures, tables=Blocks(pairs(*of)))
    return METRICS["ratio-to-floor"].measure(looked_at, ratio_gate(factor, **more))


def ratio_gate(factor: float = 1.5, **more: Any) -> Gate:
    return gate(**{"metric": "ratio-to-floor", "floor": "num", "factor": factor} | more)


FLOOR = measure(trace_spread=NOISE, traces=8)


@pytest.mark.parametrize(
    ("times", "decided", "reading"),
    [
        (1.0, "pass", "equivalent"),
        (0.2, "pass", "different"),  # less noise is no failure
        (3.0, "fail", "different"),
        (1.5, "inconclusive", "different but small or undecided"),
    ],
)
def test_the_upper_margin_decides(times: float, decided: str, reading: str) -> None:
    found = ratio(rows(times), FLOOR)
    assert (found.decided, found.reading, found.mode) == (decided, reading, "equivalence")
    assert found.words == f"outputs move {found.estimate.value:.3g} times F_num ({reading})"


def test_a_ratio_says_how_it_was_judged() -> None:
    found = ratio(rows(1.0), FLOOR)
    values = np.array([row["dlogp"] for row in rows(1.0)])
    theirs = tost_ratio(values, np.array(list(NOISE.values())), 1.5)
    assert found.bound is not None
    assert (found.bound.value, found.bound.traces) == (1.5, 8)
    assert found.bound.derivation.startswith("the ratio must lie inside 1/1.5 … 1.5, at 90% confidence; F_num is 1 nat")
    assert (found.estimate.low, found.estimate.high) == (theirs.estimate.low, theirs.estimate.high)
    assert (found.passing, found.traces) == (theirs.estimate.high, 8)
    assert found.power is not None and found.power > 0.99
    assert found.needed is not None and found.needed < 8
    twice = ratio(rows(1.0), measure(Control.REPEAT, trace_spread=NOISE), floor="run")
    assert twice.bound is not None and twice.bound.traces is None


@pytest.mark.parametrize(("low", "high", "decided"), [(1.5, 2.0, "fail"), (1.0, 1.5, "inconclusive")])
def test_on_the_margin_is_not_inside(low: float, high: float, decided: str) -> None:
    found = Equivalence(
        Estimated(1.5, 8, "made up", low, high), 1 / 1.5, 1.5, 0.05, 0.5, Reading.INCONCLUSIVE, 0.5, 0.1
    )
    assert _decided(found, 1.5) == decided


def test_one_trace_has_a_ratio_and_no_power() -> None:
    found = ratio(rows(2.0)[:1], FLOOR)
    assert (found.decided, found.power, found.needed) == ("inconclusive", None, None)
    assert found.words == f"outputs move {2 * 0.97:.3g} times F_num (inconclusive)"


def test_the_worst_cell_is_the_one_with_the_worst_verdict_then_with_the_largest_ratio() -> None:
    cells = [cell(name) for name in "abcd"]
    fail, tie, less, equal = ((rows(times, name)) for times, name in [(3.0, "a"), (1.5, "b"), (0.9, "c"), (1.0, "d")])
    assert ratio([*less, *equal, *tie, *fail], FLOOR, cells=cells).worst == "a"
    assert ratio([*less, *equal, *tie], FLOOR, cells=cells).worst == "b"
    assert ratio([*less, *equal], FLOOR, cells=cells).worst == "d"
    unsure = [row | {"dlogp": value} for row, value in zip(rows(1.0, "b"), (0.1, 9.0), strict=False)]
    assert ratio([*unsure, *fail], FLOOR, cells=cells).worst == "a"  # 4.55 times, and it may be 1
    unsure = [row | {"dlogp": value} for row, value in zip(rows(1.0, "b"), (0.1, 0.9), strict=False)]
    assert ratio([*unsure, *equal], FLOOR, cells=cells).worst == "b"  # half as much, and nobody can tell
    fewer = ratio([*less[:6], *equal], FLOOR, cells=cells)
    assert (fewer.worst, fewer.traces) == ("d", 6)


def test_a_floor_that_was_not_measured_decides_nothing() -> None:
    found = ratio(rows(1.0))
    assert (found.decided, found.estimate.value, found.estimate.n) == ("inconclusive", None, 8)
    assert found.words == "there is nothing to compare with"
    assert ratio([], FLOOR).vacuous == "no position was compared"
    assert ratio([], FLOOR, cells=[cell(vacuous=True, why_vacuous="no hit")]).vacuous.endswith("no hit")


def test_over_a_floor_of_0_mismatches_are_counted_and_none_is_allowed() -> None:
    zero = measure(trace_spread=dict.fromkeys(NAMES, 0.0), spread=estimate(0.0))
    same, other = ratio(rows(0.0), zero), ratio(rows(0.0, bits_equal=False), zero)
    for found, differ, decided in ((same, 0, "pass"), (other, 8, "fail")):
        assert (found.estimate.value, found.decided, found.mode) == (differ, decided, "exact-zero")
        assert found.bound is not None
        assert (found.bound.value, found.bound.derivation[:11]) == (0, "F_num is 0 ")


def test_a_floor_of_other_traces_is_one_number_and_clusters_are_means() -> None:
    shared = [row | {"cluster": "k"} for row in rows(1.0)[:2]] + rows(1.0)[2:3]
    traces = sum_traces(Blocks(pairs(*shared)))["state/x"]
    values, floor = paired(traces, FLOOR)
    assert values == pytest.approx([np.mean(traces.spread[:2]), traces.spread[2]])
    assert floor.tolist() == [1.0, 1.0]
    incomplete = measure(trace_spread={name: NOISE[name] for name in NAMES[1:]}, spread=estimate(0.25))
    assert paired(traces, incomplete)[1].tolist() == [0.25, 0.25]
    assert paired(traces, measure(spread=estimate(None)))[1].tolist() == [0.0, 0.0]
    kept = measure(trace_spread=NOISE | {"t0": 0.0}, spread=estimate(0.25))
    assert paired(traces, kept)[1].tolist() == [0.55, 1.0]


def tail(of: list[dict[str, Any]], of_cell: Any, **more: Any) -> Measured:
    looked_at = evidence([of_cell], tables=Blocks(pairs(*of)))
    return METRICS["tail-quantile"].measure(looked_at, gate(metric="tail-quantile", **more))


def test_the_tail_is_the_summarys_where_it_has_every_position() -> None:
    summed = cell(abs_dlogp={"p999": 7.0})
    found = tail(rows(1.0), summed)
    assert "is 7 nat" in found.words
    assert found.high_decides
    largest = max(row["dlogp"] for row in rows(1.0))
    for other in (cell(abs_dlogp={}), cell(abs_dlogp={"p999": 7.0}, not_finite=1)):
        assert f"over 8 positions is {largest:.3g} nat" in tail(rows(1.0), other).words
    free = tail(rows(2.0, experiment="free"), summed, scope={"experiment": "free"})
    assert f"is {2 * largest:.3g} nat" in free.words


def flips(margins: list[float | None], spread: float | None, **more: Any) -> Measured:
    of = [row | {"flip": margin is not None, "margin": margin} for row, margin in zip(rows(1.0), margins, strict=False)]
    looked_at = evidence([cell()], [measure(spread_max=spread)], tables=Blocks(pairs(*of)))
    return METRICS["flips-above-margin"].measure(looked_at, gate(metric="flips-above-margin", bound=0, **more))


MARGINS = [0.5, 3.0, 3.1, 8.0, None, None, None, None]


def test_flips_count_above_six_spreads_of_the_noisiest_trace() -> None:
    found = flips(MARGINS, 0.5)
    low, high = proportion(2, 8)
    assert (found.estimate.value, found.estimate.n) == (2, 8)
    assert (found.estimate.low, found.estimate.high) == (pytest.approx(8 * low), pytest.approx(8 * high))
    assert found.words == "2 of 4 flips cross a margin above 3 nat; the largest crosses 8"
    assert found.bound is not None
    assert "flips count above a margin of 6 × 0.5 nat" in found.bound.derivation
    assert flips(MARGINS, 0.5, k=1).estimate.value == 3
    assert flips([None] * 8, 0.5).words == "0 of 0 flips cross a margin above 3 nat; the largest crosses none"


def test_flips_without_a_spread_have_no_bound_and_all_of_them_count() -> None:
    found = flips(MARGINS, None)
    assert found.bound is not None
    assert (found.estimate.value, found.bound.value) == (4, None)
    assert found.bound.derivation.startswith("no F_num was measured")


def test_where_only_tokens_were_compared_it_says_so() -> None:
    silent = cell(missing=48, unsized=40)
    assert "40 tokens were compared by themselves" in tail([], silent).vacuous + tail([], silent).words
    assert tail([], cell()).vacuous == "no cell of this scope has such a number"
