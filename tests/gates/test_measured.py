"""One measured number with its evidence: counts, the largest of several, and the cell that decides."""

from __future__ import annotations

from typing import Any

import pytest

from replaycheck.compare.conv_sums import ConvCount
from replaycheck.errors import InternalError
from replaycheck.gates.bounds import Bound
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.measured import CellNumber, counted, largest, nothing, worst_cell
from replaycheck.gates.metrics import METRICS
from replaycheck.gates.scoped import fewest_traces, why_vacuous
from replaycheck.gates.summary import summary
from replaycheck.gates.unexplained import unexplained_differences
from replaycheck.gates.unsized import most_by_chance, unsized_words
from replaycheck.schema.arm import Compiler, Effect, PoolDtype
from replaycheck.schema.floor import Control
from replaycheck.schema.result import AuditResult
from replaycheck.stats.intervals import proportion
from tests.gates.pieces import arm, cell, estimate, evidence, gate, measure, probe


def measured(metric: str, of: Evidence, **more: Any) -> Any:
    return METRICS[metric].measure(of, gate(metric=metric, **more))


def test_nothing_measured_has_no_evidence() -> None:
    found = nothing("no hit", 4)
    assert (found.estimate.value, found.estimate.n, found.vacuous, found.traces) == (None, 0, "no hit", 4)


@pytest.mark.parametrize(("events", "side"), [(0, "one-sided"), (1, "two-sided"), (3, "two-sided")])
def test_a_count_has_its_interval_in_events(events: int, side: str) -> None:
    found = counted({"a": 0, "b": events}, 50, "positions", "differ", 4)
    low, high = proportion(events, 50)
    assert (found.estimate.low, found.estimate.high) == (pytest.approx(50 * low), pytest.approx(50 * high))
    assert found.estimate.method == f"count, exact binomial over positions, 95% {side}"
    assert found.worst == ("b" if events else "")
    assert ("at most" in found.words) is not bool(events)


def test_of_places_with_as_many_events_the_first_by_name_is_the_worst() -> None:
    assert counted({"b": 2, "a": 2, "c": 1}, 50, "positions", "differ", 4).worst == "a"
    assert largest({"b": 2.0, "a": 2.0, "c": 1.0}, 3, "probes", "error", None).worst == "a"


def test_where_there_is_nothing_to_count_it_says_why() -> None:
    assert counted({}, 0, "positions", "differ", 4).vacuous == "there are no positions"
    assert counted({}, 0, "positions", "differ", 4, "no hit").vacuous == "no hit"
    assert largest({}, 0, "probes", "error", None).vacuous == "there are no probes"
    assert largest({}, 0, "probes", "error", None, "no probe ran").vacuous == "no probe ran"
    assert worst_cell([], 4, "").vacuous == "no cell of this scope has such a number"
    assert worst_cell([], 4, "no hit").vacuous == "no hit"


def number(value: float, bound: float | None, where: str) -> CellNumber:
    return CellNumber(value, where, 4, Bound(bound, ""), lambda: estimate(value), f"{value} in {where}")


@pytest.mark.parametrize(
    ("numbers", "worst"),
    [
        ([(2.0, 1.0), (3.0, 2.0), (9.0, 10.0), (99.0, None)], 0),  # the furthest over its bound, not the largest
        ([(9.0, 10.0), (0.1, None), (8.0, 10.0)], 1),  # of those within, one that nobody can judge
        ([(1.0, None), (2.0, None)], 1),
        ([(9.0, 100.0), (1.0, 2.0)], 1),  # the nearest to its bound
        ([(1e-9, 0.0), (5.0, 1.0)], 0),
    ],
)
def test_the_cell_that_decides(numbers: list[tuple[float, float | None]], worst: int) -> None:
    found = worst_cell([number(value, bound, str(at)) for at, (value, bound) in enumerate(numbers)], 4, "")
    assert found.worst == str(worst)
    assert not found.high_decides


def test_a_gate_speaks_about_each_cell() -> None:
    cells = [cell(traces=9), cell("b", traces=3), cell("c", vacuous=True, why_vacuous="no hit")]
    assert fewest_traces(cells) == 3
    assert fewest_traces([]) == 0
    assert why_vacuous(cells) == "1 of 3 cells are vacuous; c: no hit"
    assert why_vacuous([]) == "the suite has no cell of this scope"


def test_bits_over_a_noisy_run_may_differ_as_often_as_twice_the_same() -> None:
    of = evidence([cell(bits_differ=5)], [measure(Control.REPEAT, positions=100, bits_differ=10)])
    found = measured("positions-bits-differ", of, floor="run", factor=2)
    assert (found.bound.value, found.estimate.value) == (pytest.approx(2 * 0.1 * 48), 5)
    assert "F_run is 0.1 of the positions" in found.bound.derivation


def test_the_largest_error_is_among_the_restores_of_cells_that_have_one() -> None:
    of = evidence([cell("a", restore_max_error=0.5), cell("b", restores=5), cell("c", restore_max_error=0.25)])
    found = measured("restore-max-error", of)
    assert (found.estimate.value, found.estimate.n, found.worst) == (0.5, 16, "a")


def test_conv_states_past_the_first_layer_count_in_exact_cells_and_fp32_pools() -> None:
    counts = [ConvCount(name, layer, dtype, 10, 1)
              for name in ("exact", "state", "total") for layer in (0, 2) for dtype in ("bf16", "fp32")]  # fmt: skip
    effects = {"exact": Effect.EXACT, "state": Effect.STATE, "total": Effect.TOTAL}
    of = evidence([cell(name, effect) for name, effect in effects.items()], conv=tuple(counts))
    found = measured("conv-unequal", of)
    assert (found.estimate.value, found.estimate.n, found.worst) == (7, 70, "exact")


def audit(of: str, share: float | None, like: int) -> AuditResult:
    return AuditResult(
        arm=of, label="final", layer=0, head=1, states=5, bf16_like=like, min_share=share, max_share=share
    )


def test_a_state_of_a_bf16_pool_or_with_too_few_numbers_is_not_audited() -> None:
    arms = [arm("wide"), arm("bf16", pool=PoolDtype.BF16)]
    audits = [audit("wide", 1.0, 2), audit("wide", None, 3), audit("bf16", 1.0, 5)]
    found = measured("bf16-like-states", evidence(arms=arms, audits=audits))
    assert (found.estimate.value, found.estimate.n, found.worst) == (2, 5, "wide, final, layer 0, head 1")
    none = measured("bf16-like-states", evidence(arms=arms, audits=audits[1:]))
    assert none.vacuous == "no state in an fp32 or fp16 pool was audited"


@pytest.mark.parametrize(
    ("reference", "candidate", "differ"),
    [
        ({"tail": ("a",)}, {"tail": ("a",)}, 0),
        ({"tail": ("a", "b")}, {"tail": ("b", "a")}, 0),
        ({"tail": ("a",)}, {"tail": ("b",)}, 1),
        ({"tail": ("a",), "answer": ("c",)}, {"tail": ("a",), "history": ("d",)}, 0),
        ({"tail": ("a",), "answer": ()}, {"tail": ("a",), "answer": ("c",)}, 0),
        ({"tail": ()}, {"tail": ("b",)}, None),
        ({}, {"tail": ("b",)}, None),
    ],
)
def test_kernels_are_compared_where_both_arms_recorded_them(reference: Any, candidate: Any, differ: int | None) -> None:
    arms = [arm("split", kernels=reference), arm("warm", kernels=candidate)]
    found = measured("kernels-differ", evidence([cell()], arms=arms))
    assert found.estimate.value == differ
    assert found.vacuous == ("no arm recorded which kernels ran" if differ is None else "")


def test_a_wrong_position_and_its_bytes_are_one_mismatch() -> None:
    arms = [arm("a", label_mismatches=3, content_mismatches=2), arm("b", proven_hits=0, content_mismatches=1),
            arm("cold", compiler=Compiler.COLD, label_mismatches=9)]  # fmt: skip
    found = measured("label-mismatches", evidence(arms=arms))
    assert (found.estimate.value, found.estimate.n, found.worst) == (4, 5, "a")


def test_more_hits_than_expected_make_up_for_none_that_is_missing() -> None:
    arms = [arm("a", proven_hits=9), arm("b", proven_hits=1)]
    found = measured("missing-hits", evidence(arms=arms))
    assert (found.estimate.value, found.estimate.n, found.worst) == (3, 8, "b")
    none = measured("missing-hits", evidence(arms=[arm("a", expected_hits=0)]))
    assert none.vacuous == "no warm arm restores anything"


def test_probes_of_ranks_are_read_by_name() -> None:
    probes = [probe("parallel/2", mismatches=1, sum_of_bound=0.5), probe("parallel/4", mismatches=3, sum_of_bound=0.25),
              probe("kernels/x", ratio=0.5), probe("double-rounding", mismatches=7)]  # fmt: skip
    of = evidence(probes=probes)
    assert (measured("shard-mismatches", of).estimate.value, measured("shard-mismatches", of).worst) == (
        3,
        "parallel/4",
    )
    assert measured("sum-of-bound", of).estimate.value == 0.5
    assert measured("kernel-error-ratio", of).estimate.value == 0.5
    assert measured("double-rounding-mismatches", of).estimate.value == 7
    for name in ("shard-mismatches", "kernel-error-ratio", "double-rounding-mismatches"):
        assert measured(name, evidence()).vacuous


@pytest.mark.parametrize("value", [None, "3"])
def test_a_probe_that_gives_no_number_is_our_error(value: Any) -> None:
    with pytest.raises(InternalError, match="a gate needs a number there"):
        measured("kernel-error-ratio", evidence(probes=[probe("kernels/x", ratio=value)]))


def test_what_each_metric_allows() -> None:
    """A free run, a floor, a number of nats under the precision of log-probabilities, and stopping a run early."""
    free = {name for name, metric in METRICS.items() if metric.experiments}
    nat = {name for name, metric in METRICS.items() if metric.nat}
    falls = {name for name, metric in METRICS.items() if not metric.grows}
    means = {"worst-trace", "window-after-restore", "tail-quantile"}
    assert free == means | {"flips-above-margin", "first-divergence", "ratio-to-floor"}
    assert nat == means
    assert falls == (free - {"worst-trace", "window-after-restore"}) | {"unexplained-differences"}
    assert {name for name, metric in METRICS.items() if not metric.constant} == {"ratio-to-floor"}


def test_totals_count_restores_of_warm_arms_and_positions_of_cells() -> None:
    of = evidence(
        [cell(), cell("b")], arms=[arm("warm", proven_hits=3), arm("split", compiler=Compiler.SPLIT, proven_hits=9)]
    )
    found = summary([], of)
    assert (found.restores, found.positions, found.traces, found.verdict) == (3, 96, 4, "vacuous")


def unexplained(*cells: Any, measures: Any = (), bound: float = 0) -> Any:
    return unexplained_differences(evidence(cells, measures), gate(metric="unexplained-differences", bound=bound))


def test_positions_that_were_not_said_are_no_evidence_and_tokens_alone_are_differences() -> None:
    found = unexplained(cell(bits_differ=2, not_finite=3, missing=8, unsized=8, unsized_flips=1))
    assert (found.estimate.value, found.estimate.n) == (4, 40)
    silent = unexplained(cell(missing=48))
    assert silent.vacuous == "the subject said nothing about any position"
    assert unexplained(cell(missing=48, vacuous=True, why_vacuous="no hit", unsized=48)).vacuous.endswith("no hit")


def test_as_many_may_differ_as_when_it_runs_twice_or_as_the_gate_says() -> None:
    noisy = measure(Control.REPEAT, positions=100, bits_differ=10)
    assert unexplained(cell(), measures=[noisy]).bound.value == pytest.approx(4.8)
    assert unexplained(cell(), measures=[noisy], bound=7).bound.value == 7
    quiet = unexplained(cell(), measures=[measure(Control.REPEAT, bits_differ=0)], bound=2).bound
    assert (quiet.value, quiet.derivation[:42]) == (2, "the constant 2; F_run is 0 (0 of 48 positi")
    assert unexplained(cell(), bound=2).bound == Bound(2, "the constant 2")


def test_the_cell_that_isolates_the_state_best_is_read() -> None:
    cells = [
        cell("total", Effect.TOTAL, bits_differ=9),
        cell("exact", Effect.EXACT, bits_differ=1),
        cell(bits_differ=5),
    ]
    found = unexplained(*cells)
    assert (found.estimate.value, found.estimate.n, found.worst) == (1, 48, "exact")


def test_tokens_alone_are_held_against_those_of_running_twice() -> None:
    twice = measure(Control.REPEAT, flips=0, positions=400)
    few, many = (unexplained(cell(missing=48, unsized=4, unsized_flips=n), measures=[twice]) for n in (0, 1))
    assert few.decided == "inconclusive"
    assert (many.decided, many.bound.value) == ("fail", 0)
    assert "more than 0 are less likely than 5%" in many.bound.derivation
    assert most_by_chance(0, 0.01) == 0


def test_tokens_by_themselves_are_told_where_nothing_else_was_compared() -> None:
    tokens = {"missing": 48, "unsized": 1234}
    assert unsized_words([cell(**tokens)]) == "1,234 tokens were compared by themselves, without log-probabilities"
    assert unsized_words([cell(**tokens), cell("b")]) == ""
    assert unsized_words([cell(missing=48)]) == ""
