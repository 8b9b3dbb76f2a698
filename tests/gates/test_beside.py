"""Requests in flight at once: other batches explain so much and no more, and nothing where they weren't measured."""

from __future__ import annotations

from typing import Any

import pytest

from replaycheck.gates.beside import FACTOR, UNMEASURED
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.unexplained import MIXED, unexplained_differences
from replaycheck.schema.arm import Answers, Effect, Kernel
from replaycheck.schema.floor import Control, Floors, Measure
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import ArmResult, CellResult

GATE = Gate(name="same", metric="unexplained-differences", bound=0, why="w", admitted_by="restore-late", min_traces=4)


def arm(name: str) -> ArmResult:
    return ArmResult.model_construct(
        name=name, history=Kernel.CHUNK, tail=Kernel.CHUNK, answers=Answers.PREFILLED, policy="p", pool="fp32"
    )


def cell(effect: Effect, candidate: str, largest: float, **more: Any) -> CellResult:
    differ = {"bits_differ": int(largest > 0), "abs_dlogp": {"max": largest}}
    return CellResult.model_construct(
        **{"name": f"{effect}/x", "effect": effect, "reference": "cold", "candidate": candidate}
        | {"traces": 4, "positions": 48, "missing": 0, "not_finite": 0, "vacuous": False}
        | {"unsized": 0, "unsized_flips": 0}
        | differ
        | more
    )


def noise(control: Control, largest: float) -> Measure:
    return Measure.model_construct(
        **{"control": control, "reference": "cold", "candidate": "cold2", "traces": 4, "positions": 48},
        **{"bits_differ": int(largest > 0), "abs_dlogp": {"max": largest}},
    )


def judged(beside: CellResult, *measures: Measure, state: float = 0.0) -> Any:
    cells = (cell(Effect.STATE, "warm", state), beside)
    arms = (arm("cold"), arm("warm"), arm("warm2"))
    floor = Floors.model_construct(origin="own", measures=measures, not_measured=())
    return unexplained_differences(Evidence(arms, cells, (), (), (), 4, floor), GATE)


@pytest.mark.parametrize(("times", "differ"), [(0.5, 0), (FACTOR, 0), (1.01 * FACTOR, 1)])
def test_so_much_of_the_noise_of_a_batch_and_no_more(times: float, differ: int) -> None:
    found = judged(cell(Effect.TOGETHER, "warm2", times * 1e-6), noise(Control.BATCH, 1e-6), noise(Control.REPEAT, 0))
    assert (found.estimate.value, found.decided) == (differ, None)
    assert found.bound.broken_by(found.estimate.value) is bool(differ)
    assert f"beside others a position moved by {times * 1e-6:.3g} nat" in found.bound.derivation


def test_where_batches_change_nothing_no_position_may_differ() -> None:
    found = judged(cell(Effect.TOGETHER, "warm2", 1e-6), noise(Control.BATCH, 0))
    assert found.estimate.value == 1 and found.worst == "together/x"
    assert not judged(cell(Effect.TOGETHER, "warm2", 0), noise(Control.BATCH, 0)).estimate.value


def test_a_nan_is_never_noise() -> None:
    found = judged(cell(Effect.TOGETHER, "warm2", 1e-6, not_finite=2), noise(Control.BATCH, 1e-3))
    assert found.estimate.value == 2


def test_noise_that_was_not_measured_decides_nothing_and_excuses_no_other_cell() -> None:
    beside = cell(Effect.TOGETHER, "warm2", 1e-6)
    found = judged(beside, noise(Control.SPLIT, 0))
    assert (found.decided, found.bound.derivation) == ("inconclusive", UNMEASURED)
    assert judged(beside, noise(Control.SPLIT, 0), state=1.0).decided is None
    total = Evidence(
        (arm("cold"), arm("warm"), arm("warm2")), (cell(Effect.TOTAL, "warm", 1.0), beside), (), (), (), 4, None
    )
    assert unexplained_differences(total, GATE).bound.derivation == f"{UNMEASURED}; {MIXED}"  # type: ignore[union-attr]
