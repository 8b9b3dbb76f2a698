"""From a measured number and a bound to a verdict, with what it says, without a run: every edge of the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replaycheck.gates import judge
from replaycheck.gates.bounds import Bound
from replaycheck.gates.load import LoadedGates
from replaycheck.gates.measured import Measured
from replaycheck.gates.metrics import Metric
from replaycheck.schema.gate import Admission, AdmittedGate, Gate, GateFile
from replaycheck.schema.result import GateResult
from tests.gates.pieces import estimate, evidence, gate

WORDS = "it is so"
BASE = Measured(estimate(0.5), "cell x", 100, WORDS)
UNKNOWN = Bound(None, "no F_num was measured")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """``judged(measured, gate)``: the result of a gate whose metric says just that."""

    def of(measured: Measured, of_gate: Gate, admitted: AdmittedGate | None = None, nat: bool = False) -> GateResult:
        monkeypatch.setattr(judge, "METRICS", {of_gate.metric: Metric(lambda *_: measured, "cells", nat=nat)})
        record = (
            Admission(model_digest="m", suite_digest="s", gates={of_gate.name: admitted}, versions={})
            if admitted
            else None
        )
        file = GateFile.model_validate({"schema": "replaycheck.gates/1", "name": "f", "gate": [of_gate.model_dump()]})
        return judge.judge_gate(LoadedGates(tmp_path / "f.toml", file, record, False), of_gate, evidence())

    return of


def wide(high: float | None, **more: Any) -> Measured:
    return replace(BASE, estimate=estimate(0.5, high), high_decides=True, **more)


@pytest.mark.parametrize(
    ("measured", "more", "verdict"),
    [
        (BASE, {}, "pass"),
        (replace(BASE, estimate=estimate(1.0)), {}, "pass"),
        (replace(BASE, estimate=estimate(1.01)), {}, "fail"),
        (replace(BASE, estimate=estimate(1.01)), {"min_traces": 101}, "fail"),
        (BASE, {"min_traces": 100}, "pass"),
        (BASE, {"min_traces": 101}, "inconclusive"),
        (replace(BASE, traces=None), {"min_traces": 101}, "pass"),
        (replace(BASE, bound=Bound(0.4, "", 9)), {"min_traces": 9}, "fail"),
        (replace(BASE, bound=Bound(0.4, "", 9)), {"min_traces": 10}, "inconclusive"),
        (replace(BASE, bound=Bound(0.4, "", None)), {"min_traces": 10}, "fail"),
        (replace(BASE, bound=UNKNOWN), {}, "inconclusive"),
        (replace(BASE, vacuous="no hit"), {}, "vacuous"),
        (replace(BASE, vacuous="no hit", estimate=estimate(2.0)), {}, "fail"),
        (replace(BASE, estimate=estimate(None)), {}, "inconclusive"),
        (replace(BASE, estimate=estimate(None), decided="pass"), {}, "pass"),
        (replace(BASE, decided="inconclusive"), {}, "inconclusive"),
        (replace(BASE, decided="fail"), {}, "fail"),
        (replace(BASE, decided="pass", estimate=estimate(9.0)), {}, "pass"),
        (wide(1.0), {}, "pass"),
        (wide(1.01), {}, "inconclusive"),
        (wide(None), {}, "pass"),
        (replace(wide(1.01), high_decides=False), {}, "pass"),
    ],
)
def test_verdicts(judged: Any, measured: Measured, more: dict[str, Any], verdict: str) -> None:
    assert judged(measured, gate(**more)).verdict == verdict


@pytest.mark.parametrize(
    ("measured", "more", "needed"),
    [
        (BASE, {"min_traces": 200}, 200),
        (wide(2.0), {}, 901),  # three times as wide as the room up to the bound: nine times as many, and one more
        (wide(2.0), {"min_traces": 2000}, None),  # too few for the gate, which is said first; see the next
        (replace(wide(2.0), estimate=estimate(1.0, 2.0)), {}, None),  # no room: no number of traces would do
        (replace(BASE, decided="inconclusive", needed=640), {}, 640),
        (replace(BASE, decided="inconclusive", needed=100), {}, None),
        (replace(BASE, decided="inconclusive"), {}, None),
        (replace(BASE, bound=Bound(0.4, "", 9)), {"min_traces": 10}, None),
        (replace(BASE, estimate=estimate(None)), {"min_traces": 300}, 300),
        (replace(BASE, traces=None, bound=UNKNOWN), {"min_traces": 0}, None),
    ],
)
def test_traces_for_a_decision(judged: Any, measured: Measured, more: dict[str, Any], needed: int | None) -> None:
    found = judged(measured, gate(**more))
    assert found.verdict == "inconclusive"
    assert found.traces_needed == (2000 if more == {"min_traces": 2000} else needed)


def test_who_passed_is_not_told_how_many_traces_it_takes(judged: Any) -> None:
    assert judged(replace(BASE, needed=640), gate()).traces_needed is None


@pytest.mark.parametrize(
    ("measured", "more", "said"),
    [
        (BASE, {}, "it is so."),
        (replace(BASE, estimate=estimate(1.5)), {}, "it is so, more than the bound 1; worst in cell x."),
        (replace(BASE, vacuous="no hit"), {}, "it is so, which proves nothing: no hit."),
        (replace(BASE, bound=UNKNOWN), {}, "it is so, but no F_num was measured."),
        (BASE, {"min_traces": 101}, "it is so, but the gate needs 101 traces and has 100."),
        (replace(BASE, bound=Bound(0.4, "", 9)), {"min_traces": 10},
         "it is so, but the bound 0.4 is over a floor of 9 traces, and to fail takes 10."),
        (wide(2.0), {}, "it is so, but its interval reaches 2, over the bound 1; about 901 traces would decide."),
        (replace(wide(2.0), estimate=estimate(1.0, 2.0)), {}, "it is so, but its interval reaches 2, over the bound 1."),
        (replace(BASE, decided="inconclusive", needed=640), {},
         "it is so, but it has no interval; about 640 traces would decide."),
        (replace(BASE, estimate=estimate(None)), {}, "it is so, but there is no number to hold against the bound."),
        (replace(BASE, decided="fail", bound=UNKNOWN), {}, "it is so, more than the bound; worst in cell x."),
    ],
)  # fmt: skip
def test_sentences(judged: Any, measured: Measured, more: dict[str, Any], said: str) -> None:
    assert judged(measured, gate(**more)).sentence == said


@pytest.mark.parametrize(("bound", "nat", "verdict"), [
    (Bound(1e-9, ""), True, "inconclusive"), (Bound(1e-9, ""), False, "pass"), (UNKNOWN, True, "inconclusive"),
    (Bound(1e-3, ""), True, "pass"),
])  # fmt: skip
def test_a_bound_in_nat_under_the_precision_of_fp32_is_refused(
    judged: Any, bound: Bound, nat: bool, verdict: str
) -> None:
    found = judged(replace(BASE, estimate=estimate(0.0), bound=bound), gate(), nat=nat)
    assert found.verdict == verdict
    assert found.sentence.startswith("Not judged: ") is (nat and bound.value == 1e-9)


def test_the_usual_power_is_that_of_a_fault_in_one_trace_of_twenty(judged: Any) -> None:
    found = judged(replace(BASE, traces=59), gate())
    assert found.power == pytest.approx(1 - 0.95**59)
    assert 0.95 <= found.power < 0.952
    assert found.power_of == "to see a fault that touches one trace in twenty"


def test_a_metric_may_know_its_own_power_and_probes_have_none(judged: Any) -> None:
    own = judged(replace(BASE, power=0.5, power_of="to find it"), gate())
    assert (own.power, own.power_of) == (0.5, "to find it")
    none = judged(replace(BASE, traces=None), gate())
    assert (none.power, none.power_of) == (None, "")


@pytest.mark.parametrize(
    ("measured", "passing"),
    [(BASE, 0.5), (wide(0.7), 0.7), (replace(wide(0.7), high_decides=False), 0.5), (replace(BASE, passing=0.6), 0.6)],
)
def test_the_smallest_bound_that_would_have_passed(judged: Any, measured: Measured, passing: float) -> None:
    assert judged(measured, gate()).passing_bound == passing


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({}, "the whole run"),
        ({"effect": "state"}, "effect state"),
        ({"effect": "state", "experiment": "forced"}, "effect state"),
        (
            {"effect": "total", "experiment": "free", "pool": ("bf16", "fp16")},
            "effect total, free run, pool bf16 or fp16",
        ),
    ],
)
def test_the_scope_in_words(judged: Any, scope: dict[str, Any], said: str) -> None:
    assert judged(BASE, gate(scope=scope)).scope == said


def test_what_selftest_saw_is_beside_the_verdict(judged: Any) -> None:
    seen = AdmittedGate(fault="restore-late", value=6.0, clean=0.5, gate_digest="d")
    found = judged(BASE, gate(bound=2.0), seen)
    assert (found.fault_value, found.separation, found.derivation) == (6.0, 3.0, "the constant 2")
    assert (judged(BASE, gate()).fault_value, judged(BASE, gate()).separation) == (None, None)
