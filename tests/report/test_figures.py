"""What the charts and tables say, from rows made by hand whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from replaycheck.gates.sums import CellTraces
from replaycheck.report import aligned, heat, parted, strip
from replaycheck.report.budget import Budget, keep
from replaycheck.report.equivalence import equivalence_bars
from replaycheck.report.paths import Spot, trace_rows
from replaycheck.report.streams import Spread, keys, spreads, whole
from replaycheck.report.tokens import MASK, glyphs
from replaycheck.report.turns import quantile_rows, turn_table
from replaycheck.schema.arm import Answers, Effect, Kernel, PoolDtype
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.floor import Control, Floors, Measure
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.result import ArmResult, CellResult, Result, Summary

ONE = Estimate(value=1.0, n=4, method="test")
TOTAL, GRID, EXACT = (f"{name}/k/fp32" for name in ("total", "grid", "exact"))


def arm(name: str, compiler: str) -> ArmResult:
    return ArmResult.model_validate(
        {
            "name": name, "compiler": compiler, "history": "chunk", "tail": "chunk", "answer": "recurrent",
            "answers": "decoded", "pool": "fp32", "policy": "p", "recipe": "exact", "kernels": {}, "expected_hits": 1,
            "proven_hits": 1, "computed_tokens": 1, "positions": 1,
        }
    )  # fmt: skip


def cell(name: str, effect: Effect, **changes: Any) -> CellResult:
    reference, candidate = {"total": ("cold", "warm"), "grid": ("cold", "split"), "exact": ("rounded", "warm")}[effect]
    return CellResult(
        name=name, effect=effect, reference=reference, candidate=candidate, traces=4, positions=8, restores=1, bits_differ=1,
        abs_dlogp={"p99": 0.1}, worst_trace_abs_dlogp=ONE, kl_mean=ONE, kl_max=None, flips=0, flip_margin_max=None,
        diverged_branches={}, first_divergence={}, state_rel_error=None, restore_max_error=None, conv_unequal=0,
        vacuous=False,
    ).model_copy(update=changes)  # fmt: skip


def result(*cells: CellResult, **changes: Any) -> Result:
    arms = (arm("cold", "cold"), arm("split", "split"), arm("rounded", "split-rounded"), arm("warm", "warm"))
    summary = Summary(
        declared=0, passed=0, failed=0, inconclusive=0, vacuous=0, verdict="pass", exit_code=0, traces=4, restores=1,
        positions=8,
    )  # fmt: skip
    return Result(
        suite="s", suite_digest="0", subject="lab", model="m", model_digest="0", recipe="exact", kernels="ours",
        device="cpu", seed=0, faults=(), not_checked=(), arms=arms, cells=cells, probes=(), audits=(), gates=(), findings=(),
        summary=summary,
    ).model_copy(update=changes)  # fmt: skip


def pairs(name: str, dlogp: list[float], trace: str = "t", restore: int | None = None, **columns: Any) -> pa.Table:
    """Positions 0, 1, … of one path, in turn 0 unless said otherwise."""
    position = np.arange(len(dlogp))
    rows: dict[str, Any] = {
        "cell": name, "experiment": "forced", "cluster": trace, "trace": trace, "branch": 0, "turn": 0, "position": position,
        "role": "assistant", "dlogp": dlogp, "kl": None, "flip": False, "margin": 1.0, "bits_equal": np.array(dlogp) == 0,
        "offset_from_restore": None if restore is None else np.where(position >= restore, position - restore, np.nan),
    }  # fmt: skip
    frame = pd.DataFrame(rows | columns)
    return to_arrow("pairs", frame.astype({"offset_from_restore": "Int32", "kl": "float64"}))


def test_quantiles_are_of_rank_and_at_most_a_bin_too_large() -> None:
    spread = Spread()
    spread.add(np.array([0.0, 0.0, 1e-3, 2e-3, 0.5, np.nan]))
    assert spread.quantile(0.4) == 0
    assert spread.quantile(0.5) == pytest.approx(1e-3, rel=2**-8)
    assert spread.quantile(1.0) == pytest.approx(0.5, rel=2**-8)
    assert (spread.count, spread.broken) == (5, 1)
    assert Spread().quantile(0.5) is None


def test_turns_are_rows_and_what_must_be_equal_fails_there() -> None:
    of = result(cell(TOTAL, Effect.TOTAL), cell(EXACT, Effect.EXACT))
    rows = [pairs(TOTAL, [0.0, 0.02], turn=[0, 1], flip=[False, True]), pairs(EXACT, [0.0, 0.3], turn=[0, 1])]
    found = spreads(of, rows)
    table = turn_table(found)
    assert table.columns == ((Effect.TOTAL, PoolDtype.FP32), (Effect.EXACT, PoolDtype.FP32))
    (_, _, before), (_, _, after) = table.rows
    assert [entry and entry.fail for entry in before] == [False, False]
    assert [entry and (entry.differ, entry.flips, entry.fail) for entry in after] == [
        ("100 %", "1", False), ("100 %", "0", True),
    ]  # fmt: skip
    total = quantile_rows(whole(found))[0]
    assert (total.effect, total.n, total.mean, total.same_top, total.same_bits) == (
        "total, fp32",
        "2",
        "0.01",
        "50 %",
        "50 %",
    )


def test_free_positions_are_told_apart() -> None:
    of = result(cell(TOTAL, Effect.TOTAL))
    assert whole(spreads(of, [pairs(TOTAL, [0.5], experiment="free")])) == {}


def floor(**spread: float) -> Floors:
    measure = Measure(
        control=Control.SPLIT, reference="cold", candidate="split", history=Kernel.CHUNK, tail=Kernel.CHUNK,
        answers=Answers.DECODED, pool=PoolDtype.FP32, policy="p", traces=4, positions=8, bits_differ=8,
        bits_differ_bound=1.0, spread=ONE.model_copy(update={"value": float(np.mean(list(spread.values())))}),
        spread_max=1.0, mean_abs_dlogp=ONE,
        worst_trace_abs_dlogp=ONE, window_abs_dlogp=ONE, abs_dlogp={"p99": 0.1}, flips=0, flip_margin_max=None,
        flip_traces=ONE, trace_spread=spread,
    )  # fmt: skip
    return Floors(origin="own", measures=(measure,))


def sums(spread: list[float]) -> CellTraces:
    n = len(spread)
    values, ints = np.array(spread), np.arange(n)
    return CellTraces(
        tuple(f"t{at}" for at in range(n)),
        ints,
        ints + 1,
        ints + 1,
        values,
        values,
        values,
        np.empty(0),
    )


NOISE = [0.010, 0.011, 0.009, 0.0105]


@pytest.mark.parametrize(
    ("scale", "reading", "mark"),
    [(1.0, "equivalent", "good"), (4.0, "different", "bad"), (0.2, "quieter than the floor", "soft")],
)
def test_a_bar_reads_as_the_gate_does(scale: float, reading: str, mark: str) -> None:
    of = result(cell(TOTAL, Effect.TOTAL), floor=floor(**{f"t{at}": each for at, each in enumerate(NOISE)}))
    bars = equivalence_bars(of, {TOTAL: sums([scale * each * (1 + 0.01 * at) for at, each in enumerate(NOISE)])})
    (bar,) = bars.bars
    assert (bar.reading, bar.mark) == (reading, mark)
    inside = bars.band[0] < bar.low and bar.high < bars.band[1]
    assert inside == (reading == "equivalent")
    assert 0 <= bar.low <= bar.at <= bar.high <= 100


def test_votes_of_traces_are_corrected_for_the_number_of_bars() -> None:
    """All four traces above the floor: p = 2/2^4, and for two bars times (1 + 1/2)."""
    known = floor(**{f"t{at}": each for at, each in enumerate(NOISE)})
    louder = sums([2 * each for each in NOISE])
    (alone,) = equivalence_bars(result(cell(TOTAL, Effect.TOTAL), floor=known), {TOTAL: louder}).bars
    assert alone.votes == "4 of 4 above; p 0.125"
    cells = cell(TOTAL, Effect.TOTAL), cell("other", Effect.TOTAL)
    first, second = equivalence_bars(result(*cells, floor=known), {TOTAL: louder, "other": louder}).bars
    assert first.votes == second.votes == "4 of 4 above; p 0.188"
    level = sums([known.measures[0].trace_spread[f"t{at}"] for at in range(4)])
    (same,) = equivalence_bars(result(cell(TOTAL, Effect.TOTAL), floor=known), {TOTAL: level}).bars
    assert same.votes == "all just ×1", "nobody votes"


def test_without_noise_there_is_no_bar_and_without_a_floor_the_page_says_why() -> None:
    known = floor(**{f"t{at}": each for at, each in enumerate(NOISE)})
    bars = equivalence_bars(result(cell(TOTAL, Effect.TOTAL), floor=known), {TOTAL: sums([0.0] * 4)})
    assert (bars.bars, bars.same) == ((), 1)
    assert "--floor FILE" in equivalence_bars(result(cell(TOTAL, Effect.TOTAL)), {TOTAL: sums(NOISE)}).why_empty


def test_the_curve_steps_at_the_restore_and_its_control_does_not() -> None:
    quiet = [1e-3] * 120
    hit = [1e-3] * 40 + [0.5] * 8 + [1e-3] * 72
    of = result(cell(TOTAL, Effect.TOTAL), cell(GRID, Effect.GRID))
    total, control = aligned.aligned(of, [pairs(TOTAL, hit, restore=40), pairs(GRID, quiet)])
    assert total.found.mean[-aligned.FIRST] == 0.5 and total.found.mean[-aligned.FIRST - 1] == 1e-3
    assert (control.label, control.found.restores) == ("other cuts only", 1)
    assert control.found.contrast == pytest.approx(0)
    assert total.found.contrast == pytest.approx(0.499 * 8 / 32)
    chart = aligned.aligned_chart([total, control])
    assert chart.svg is not None and "above the curve of other cuts" in chart.see


BF16 = "total/k/bf16"


def divergences(*rows: tuple[str, int, bool], of: str = TOTAL) -> pa.Table:
    return to_arrow(
        "divergences",
        pd.DataFrame(
            {
                "cell": of, "trace": [name for name, *_ in rows], "branch": range(len(rows)), "turn": 0, "position": 1,
                "offset_from_restore": [offset for _, offset, _ in rows], "kind": "argmax", "token_a": 1, "token_b": 2,
                "margin": 1.0, "dlogp": 0.1, "censored": [censored for *_, censored in rows], "experiment": "forced",
            }
        ),
    )  # fmt: skip


def test_a_trace_is_one_case_of_the_survival_curve() -> None:
    cells = {PoolDtype.FP32: cell(TOTAL, Effect.TOTAL)}
    rows = divergences(("a", 10, False), ("a", 40, True), ("b", 100, True), ("c", 20, False), ("d", 50, True))
    found = parted.curves(cells, [rows])
    curve = found[PoolDtype.FP32].curve
    assert int(curve.at_risk[0]) == 4
    assert curve.at(15) == 0.75 and curve.at(30) == 0.5
    chart = parted.survival_chart(found)
    assert "2 traces of 4 parted" in chart.see
    assert chart.svg is not None and "traces at risk" in chart.svg


def test_the_mean_of_alike_tokens_has_one_horizon_and_an_interval() -> None:
    """To 100 tokens, the end of fp32: (100 + 100 + 10 + 20) / 4, variance 47.5² / 12 + 40² / 6. Nothing parted with bf16."""
    cells = {PoolDtype.FP32: cell(TOTAL, Effect.TOTAL), PoolDtype.BF16: cell(BF16, Effect.TOTAL)}
    ends = divergences(("a", 10, False), ("b", 100, True), ("c", 20, False), ("d", 100, True))
    whole_ = divergences(*((name, 300, True) for name in "abcd"), of=BF16)
    chart = parted.survival_chart(parted.curves(cells, [ends, whole_]))
    assert "fp32: 2 traces of 4 parted; on average 57.5 [15.7, 99.3] of the first 100 tokens alike" in chart.see
    assert "bf16: 0 traces of 4 parted; S(256) = 1 [0.473, 1].\n" in chart.see


@pytest.mark.parametrize(
    ("bf16", "said"),
    [
        (10, "With the bf16 pool 6 of 6 traces parted sooner than with fp32 (sign test, p = 0.0312)."),
        (60, "With the bf16 pool 0 of 6 traces parted sooner than with fp32 (sign test, p = 0.0312)."),
        (20, None),  # ties vote for neither
    ],
)
def test_the_pool_that_parts_sooner_is_named_by_votes_of_traces(bf16: int, said: str | None) -> None:
    cells = {PoolDtype.FP32: cell(TOTAL, Effect.TOTAL), PoolDtype.BF16: cell(BF16, Effect.TOTAL)}
    rows = [divergences(*((name, at, False) for name in "abcdef"), of=of) for at, of in ((20, TOTAL), (bf16, BF16))]
    see = parted.survival_chart(parted.curves(cells, rows)).see
    assert ("parted sooner" in see) == (said is not None)
    assert said is None or said in see


def test_pools_whose_comparisons_differ_in_more_arent_compared() -> None:
    other = "total/another/bf16"
    cells = {PoolDtype.FP32: cell(TOTAL, Effect.TOTAL), PoolDtype.BF16: cell(other, Effect.TOTAL)}
    rows = [divergences(("a", 20, False)), divergences(("a", 10, False), of=other)]
    assert "parted sooner" not in parted.survival_chart(parted.curves(cells, rows)).see


def test_traces_that_only_one_pool_has_dont_vote() -> None:
    cells = {PoolDtype.FP32: cell(TOTAL, Effect.TOTAL), PoolDtype.BF16: cell(BF16, Effect.TOTAL)}
    rows = [divergences(("a", 20, False), ("b", 20, False)), divergences(("b", 10, False), ("c", 90, True), of=BF16)]
    assert "With the bf16 pool 1 of 1 trace parted sooner" in parted.survival_chart(parted.curves(cells, rows)).see


def test_states_are_listed_worst_first_and_those_without_error_are_counted() -> None:
    of = result(cell(EXACT, Effect.EXACT, state_rel_error=0.9))
    rows = pd.DataFrame(
        [
            (EXACT, f"t{at}", "0/1@64", layer, 0, error, error, 0.0, None, True, "interior", "fp32")
            for at, errors in enumerate([(0.0, 0.0), (0.9, 1e-5), (0.0, 0.2)])
            for layer, error in enumerate(errors)
        ],
        columns=to_arrow("restores", {name: [] for name in heat_columns()}).column_names,
    )
    found = heat.heat(of, [to_arrow("restores", rows)], Budget(100, 10, 10, 0))
    assert [row.trace for row in found.rows.all] == ["t1", "t2"]
    assert found.exact == 1
    assert [entry and entry[1] for entry in found.rows.all[0].errors] == [5, 1]


def heat_columns() -> list[str]:
    from replaycheck.schema.tables import RESTORES

    return list(RESTORES.names)


def observations(name: str, top1: list[int]) -> pa.Table:
    n = len(top1)
    return to_arrow(
        "observations",
        pd.DataFrame(
            {
                "trace": "t", "branch": 0, "turn": 0, "position": range(n), "role": "assistant", "token": ord("x"),
                "arm": name,
                "experiment": "forced", "logprob": 0.0, "top1": top1, "top1_logprob": 0.0, "margin": 1.0, "top20": None,
                "logits_digest": None, "restore": None, "offset_from_restore": None, "cluster": "t",
            }
        ),
    )  # fmt: skip


@pytest.mark.parametrize("shown", [True, False])
def test_a_strip_shows_both_tokens_where_they_differ_or_hides_all(shown: bool) -> None:
    of = result(cell(TOTAL, Effect.TOTAL))
    spot = Spot(TOTAL, "t", 0, 0, 20, 0.3)
    flip = [at == 20 for at in range(60)]
    rows = pairs(TOTAL, [0.0] * 20 + [0.3] + [0.0] * 39, restore=5, flip=flip)
    seen = [observations("cold", [ord("a")] * 60), observations("warm", [ord("b")] * 60)]
    (found,) = strip.strips(of, [spot], [rows], seen, glyphs("ascii-144", shown))
    assert [box.position for box in found.boxes] == list(range(8, 49))
    (here,) = [box for box in found.boxes if box.here]
    assert (here.text, here.said, here.size, here.level) == (
        ("x", ("a", "b"), "0.3", 5) if shown else (MASK, (MASK, MASK), "0.3", 5)
    )
    assert found.restore == 5
    assert strip.anchor("RC110", "17", 3) == "RC110-trace-17-turn-3"
    assert strip.anchor("RC110", "trace-<b>\u202e", 3) == "RC110-trace--b---turn-3"


def test_a_nan_where_bits_differ_is_the_worst_position_of_its_trace() -> None:
    of = result(cell(TOTAL, Effect.TOTAL))
    found = trace_rows(keys(of), Effect.TOTAL, [pairs(TOTAL, [0.0, 9.0, np.nan], bits_equal=[True, False, False])])
    assert found["t"].worst is not None and found["t"].worst.position == 2
    assert found["t"].mean == 3.0


def test_the_worst_and_the_typical_are_kept_and_the_rest_is_counted() -> None:
    kept = keep(list(range(100)), lambda each: (float(each),), Budget(5, 3, 0, 0))
    assert kept.worst == (99, 98, 97, 96, 95)
    assert all(abs(each - 49.5) < 3 for each in kept.typical) and len(kept.typical) == 3
    assert kept.left_out == 92 and "92 of 100" in kept.said
    assert keep([1, 2], lambda each: (float(each),), Budget(5, 3, 0, 0)).said == ""
