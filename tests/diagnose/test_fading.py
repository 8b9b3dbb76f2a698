"""Errors that fade as the model forgets, errors that outlive it, and what the rules make of either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from replaycheck.diagnose.again import Case, replay
from replaycheck.diagnose.examine import examine
from replaycheck.diagnose.explain import explain
from replaycheck.diagnose.fading import Fading, _forgotten, _inputs, followed
from replaycheck.diagnose.locate import FirstWrong, Named
from replaycheck.diagnose.symptoms import Symptoms
from replaycheck.diagnose.trail import Key, Op, Seen
from replaycheck.replay.worker import network
from replaycheck.schema.arm import PoolDtype
from replaycheck.stats.estimate import Estimated
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck_kernels.oracle import prepared, step

CaseOf = Callable[..., Case]


def fading(own: float | None, model: float | None, left: float = 0.1, calls: int = 0) -> Fading:
    sizes = (0.9, 0.8, left)
    return Fading((5, 9, 40), sizes, sizes, Estimated(own, 3, "by hand"), Estimated(model, 3, "by hand"), calls)


def wrong(op: Op, layer: int = 0) -> FirstWrong:
    seen = Seen(Key(op, 0, 64), np.zeros((1, 1), np.uint32), np.zeros(1, np.uint32), True)
    return FirstWrong(seen, seen, Named("t", 0, 0), ((layer, 0),), (), 0.5, (layer,), 1)


def said(**facts: object) -> str:
    known = {"meant": 64, "recurrent": True, "stays": frozenset()} | facts
    found = explain(replace(Symptoms(PoolDtype.FP32), **known))  # type: ignore[arg-type]
    assert found is not None
    return found.code


@pytest.mark.parametrize("fault", ["not-cleared", "slot-reused"])
def test_one_wrong_state_fades_on_the_models_own_half_life(case_of: CaseOf, fault: str) -> None:
    found = examine(case_of(fault)).fading
    assert found and found.own.value and found.models.value
    # bf16 pools round again at each stored token: 2^-9 of the state beside an error as large as it.
    assert found.own.value == pytest.approx(found.models.value, rel=0.1)
    assert max(abs(a - b) for a, b in zip(found.seen, found.model, strict=True)) < 0.1
    assert found.fades in (True, None)


def test_an_error_that_is_made_at_each_store_outlives_what_the_model_forgets(case_of: CaseOf) -> None:
    facts = examine(case_of("truncated"))
    assert facts.fading and facts.fades is False
    assert facts.fading.seen[-1] > 2 > facts.fading.model[-1]
    found = explain(facts)
    assert found and any("something adds to it" in line for line in found.evidence)
    assert "one wrong state and nothing else: it would fade as fast as the model forgets" in found.excluded


def test_what_the_model_forgets_is_the_difference_of_two_runs(case_of: CaseOf) -> None:
    """The recurrence is linear in its state: two runs from unlike states differ by what is left of the difference."""
    case = case_of(None)
    whole = network(case.work.model, case.work.recipe, KernelChoice())
    tokens = tuple(range(40, 90))
    for layer in (0, 3):
        q, k, v, beta, g = prepared(_inputs(whole, layer, tokens))
        error = torch.from_numpy(np.random.default_rng(layer).normal(size=(v.shape[1], v.shape[2], k.shape[2])))
        a = torch.ones_like(error)
        b = a + error
        for t in range(20, len(tokens)):
            a, _ = step(a, q[t], k[t], v[t], g[t], beta[t])
            b, _ = step(b, q[t], k[t], v[t], g[t], beta[t])
        last = dict(_forgotten(whole, layer, tokens, 20, error.numpy()))[len(tokens) - 20]
        assert last == pytest.approx(float((b - a).norm()), rel=1e-9)


def test_few_states_are_kept_the_first_and_the_last_among_them(
    case_of: CaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replay(case_of("not-cleared"))
    assert found.wrong is not None
    every = sorted(followed(found, found.wrong), key=lambda key: key.position)
    assert len(every) > 3
    assert all(key.op is Op.COMPUTE and key.position > found.wrong.key.position for key in every)
    monkeypatch.setattr("replaycheck.diagnose.fading.MOST", 3)
    few = sorted(followed(found, found.wrong), key=lambda key: key.position)
    assert (len(few), few[0], few[-1]) == (3, every[0], every[-1])


@pytest.mark.parametrize(
    ("own", "model", "left", "fades"),
    [(10.0, 10.0, 0.1, True), (20.0, 10.0, 0.1, True), (20.1, 10.0, 0.1, False), (None, 10.0, 0.1, False),
     (10.0, None, 0.1, None), (10.0, 10.0, 0.51, None)],
)  # fmt: skip
def test_twice_the_models_half_life_is_the_border(
    own: float | None, model: float | None, left: float, fades: bool | None
) -> None:
    assert fading(own, model, left).fades is fades


def test_two_offsets_say_nothing() -> None:
    few = replace(fading(10.0, 10.0), offsets=(5, 40))
    assert few.fades is None


def test_the_size_of_a_store_error_tells_one_rounding_to_bf16() -> None:
    """A store to an fp32 pool that no cast explains; in a bf16 pool it proves nothing."""
    assert said(wrong=wrong(Op.STORE), error=1.7e-3) == "RC101"
    assert said(wrong=wrong(Op.STORE), error=1.7e-3, pool=PoolDtype.BF16) == "RC102"
    assert said(wrong=wrong(Op.STORE), error=3.4e-3) == "RC102"


def test_arithmetic_errs_in_every_call_and_trace() -> None:
    assert said(wrong=wrong(Op.COMPUTE), error=0.5, fading=fading(None, 10.0, calls=3)) == "RC511"
    assert said(wrong=wrong(Op.COMPUTE), error=0.5, fading=fading(10.0, 10.0)) == "RC511"
    assert said(wrong=wrong(Op.COMPUTE), error=0.5, fading=fading(10.0, 10.0, calls=3)) == "RC903"
    assert said(wrong=wrong(Op.COMPUTE), error=0.5, share=1.0) == "RC511"
    assert said(wrong=wrong(Op.COMPUTE), error=0.5, share=0.5) == "RC903"
