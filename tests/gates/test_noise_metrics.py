"""Gates over noise: a clean noisy suite fails none, and each metric fails on the fault that it is there for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from replaycheck.compare.record import ScoredTurn
from replaycheck.schema.result import GateResult
from tests.gates.suites import Turns, judged, other_tokens

NOISE = ("worst-trace", "tail", "window", "flips", "first-divergence", "same-enough", "fp32-pool")


@pytest.fixture(scope="module")
def clean() -> dict[str, GateResult]:
    return judged()


def in_one_trace(turns: Sequence[ScoredTurn]) -> list[ScoredTurn]:
    return [other_tokens(turn, 20) if turn.trace == "t007" else turn for turn in turns]


def at_one_token_of_each_turn(turns: Sequence[ScoredTurn]) -> list[ScoredTurn]:
    return [other_tokens(turn, 30, slice(3, 4)) if turn.trace < "t008" else turn for turn in turns]


def after_restores(turns: Sequence[ScoredTurn]) -> list[ScoredTurn]:
    return [other_tokens(turn, 25, slice(0, 4)) if turn.restore is not None else turn for turn in turns]


def not_a_number(turns: Sequence[ScoredTurn]) -> list[ScoredTurn]:
    first, *others = turns
    logits = first.logits.copy()
    logits[0] = np.nan
    return [replace(first, logits=logits), *others]


FAULTS: dict[str, tuple[Turns, tuple[str, ...]]] = {
    "one trace": (in_one_trace, ("worst-trace",)),
    "one token in twelve of eight traces": (at_one_token_of_each_turn, ("tail", "flips")),
    "right after each restore": (after_restores, ("window", "first-divergence", "same-enough", "flips", "tail")),
    "NaN at one position": (not_a_number, ("worst-trace",)),
}


def test_noise_of_one_law_in_every_arm_fails_nothing_and_decides(clean: dict[str, GateResult]) -> None:
    assert {name: clean[name].verdict for name in NOISE} == dict.fromkeys(NOISE, "pass")


def test_a_subject_that_shows_no_states_has_nothing_to_judge_them_by(clean: dict[str, GateResult]) -> None:
    assert clean["state-error"].verdict == "vacuous"


@pytest.mark.parametrize(("change", "names"), FAULTS.values(), ids=FAULTS)
def test_each_metric_fails_on_its_fault(clean: dict[str, GateResult], change: Turns, names: tuple[str, ...]) -> None:
    found = judged(change)
    for name in names:
        value, before, bound = found[name].value.value, clean[name].value.value, found[name].bound
        assert value is not None and before is not None and bound is not None
        assert value > bound >= before, name
        assert found[name].verdict in ("fail", "not-judged"), name
        assert found[name].passing_bound is not None and found[name].passing_bound >= value


def test_tokens_are_not_judged_where_logits_fail_and_it_says_so() -> None:
    found = judged(after_restores)
    assert found["window"].verdict == "fail"
    assert found["flips"].verdict == "not-judged"
    assert found["flips"].sentence.startswith("Not judged, since a gate of the stage logits failed.")


def test_every_result_has_its_evidence(clean: dict[str, GateResult]) -> None:
    for name in NOISE:
        gate = clean[name]
        assert gate.value.n > 0 and gate.value.method
        assert gate.traces == 64
        assert gate.line is not None
        assert (gate.separation is None) == (name in ("flips", "fp32-pool")), name  # a bound of 0, and a share of bits
        assert gate.separation is None or gate.separation > 1
        assert gate.power is not None and 0.9 < gate.power <= 1
        assert "F_num" in gate.derivation or "F_run" in gate.derivation, name
    for name in ("worst-trace", "tail", "window", "first-divergence", "same-enough"):
        assert clean[name].value.low is not None, name


def test_the_ratio_to_the_floor_is_tested_for_equivalence(clean: dict[str, GateResult]) -> None:
    gate = clean["same-enough"]
    assert (gate.mode, gate.reading) == ("equivalence", "equivalent")
    assert gate.value.low is not None and gate.value.high is not None
    assert 1 / 1.5 < gate.value.low < gate.value.high < 1.5


def test_noise_that_runs_have_among_themselves_is_allowed_to_an_fp32_pool(clean: dict[str, GateResult]) -> None:
    gate = clean["fp32-pool"]
    assert gate.mode == "bound"
    assert gate.value.value == gate.value.n == gate.bound
