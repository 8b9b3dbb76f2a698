"""Bounds: constants, multiples of the floor that holds for a cell, and what is said where there is none."""

from __future__ import annotations

from math import inf

import pytest

from replaycheck.gates.beside import FACTOR, by_batches, said
from replaycheck.gates.bounds import Bound, bound_in, floor_of
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.floor import Control, FloorKind, Measure
from tests.gates.pieces import arm, cell, estimate, evidence, gate, measure


def worst(measure: Measure) -> float | None:
    return measure.worst_trace_abs_dlogp.value


def test_a_value_on_the_bound_passes_and_without_a_bound_nothing_breaks_it() -> None:
    assert Bound(2.0, "").broken_by(2.001)
    assert not Bound(2.0, "").broken_by(2.0)
    assert not Bound(None, "").broken_by(1e9)


@pytest.mark.parametrize(
    ("bound", "value", "share"),
    [(4.0, 1.0, 0.25), (4.0, 0.5, 0.125), (4.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1e-9, inf), (4.0, -1.0, 0.0)],
)
def test_a_value_takes_a_share_of_the_bound(bound: float, value: float, share: float) -> None:
    assert Bound(bound, "").share(value) == share


def test_a_constant_is_a_bound_of_no_traces() -> None:
    assert bound_in(evidence([cell()]), gate(bound=0.5), cell(), worst, "it") == Bound(0.5, "the constant 0.5")


def test_a_bound_over_f_num_says_its_arithmetic_and_its_traces() -> None:
    found = bound_in(evidence([cell()], [measure()]), gate(floor="num", factor=3), cell(), worst, "the worst trace")
    said = "3 × F_num; F_num is 0.25, the worst trace (split: split against cold, 4 traces)"
    assert found == Bound(0.75, said, 4)


def test_a_bound_over_f_run_may_come_from_any_number_of_traces() -> None:
    found = bound_in(evidence([cell()], [measure(Control.REPEAT)]), gate(floor="run", factor=2), cell(), worst, "it")
    assert (found.value, found.traces) == (0.5, None)


@pytest.mark.parametrize("measures", [[], [measure(Control.REPEAT)], [measure(worst_trace_abs_dlogp=estimate(None))]])
def test_a_floor_that_was_not_measured_or_has_no_such_number_gives_no_bound(measures: list[Measure]) -> None:
    found = bound_in(evidence([cell()], measures), gate(floor="num", factor=3), cell(), worst, "it")
    assert found.value is None
    assert found.derivation.startswith("no F_num was measured for state/x; give --floor FILE")


def test_of_f_run_the_measure_with_the_highest_rate_of_differences_holds() -> None:
    few = measure(Control.REPEAT, positions=1000, bits_differ=20)
    often = measure(Control.REPEAT, positions=10, bits_differ=5)
    assert floor_of(evidence([cell()], [few, often]), FloorKind.RUN, cell()) is often
    assert floor_of(evidence([cell()], [often, few]), FloorKind.RUN, cell()) is often


def test_f_rnd_is_that_of_the_cells_pool() -> None:
    rounded = [measure(Control.ROUNDED, pool=pool) for pool in (PoolDtype.BF16, PoolDtype.FP16)]
    of = evidence([cell()], [*rounded, measure()], [arm("warm", pool=PoolDtype.FP16)])
    assert floor_of(of, FloorKind.RND, cell()) is rounded[1]
    assert floor_of(of, FloorKind.NUM, cell()) is not rounded[1]


def test_the_factor_for_batches_has_the_chance_that_it_was_derived_from() -> None:
    chance = 1 / (1 + FACTOR**3)
    assert round(chance, 3) == 0.002


def beside(**more: object) -> tuple[Measure, ...]:
    return (measure(Control.BATCH, **more),)


def test_batches_that_move_nothing_explain_nothing() -> None:
    """Not even a position whose bits differ though its log-probability is the same."""
    same = cell("together/x", Effect.TOGETHER, abs_dlogp={"max": 0.0}, bits_differ=1)
    assert not by_batches(evidence([same], beside(abs_dlogp={"max": 0.0})), same)
    assert not by_batches(evidence([same], beside(abs_dlogp={})), same)
    assert by_batches(evidence([same], beside(abs_dlogp={"max": 1e-9})), same)


def test_a_cell_without_a_finite_difference_moved_by_nothing() -> None:
    none = cell("together/x", Effect.TOGETHER)
    assert by_batches(evidence([none], beside(abs_dlogp={"max": 1e-9})), none)
    assert said(evidence([none], beside()), [none]) == ""
    assert said(evidence([none], beside()), []) == ""
