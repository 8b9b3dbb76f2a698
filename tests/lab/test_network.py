"""The network on packed rows: forms agree, rounding points act, rows don't meet, and taps are the states they name."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

from replaycheck.subjects.lab import batch
from replaycheck.subjects.lab.batch import run_rows
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput, Tap
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import EXACT, ORACLE, Recipe
from replaycheck_kernels.registry import ours
from tests.tensors import no_gradients as no_gradients

TOKENS = tuple((11 * i * i + 5 * i) % 128 for i in range(150))


def network(model: Path, recipe: Recipe) -> Network:
    return Network(model, recipe, ours(recipe, "cpu"))


def run(net: Network, recipe_form: str = "chunk", count: int = 70) -> RowOutput:
    return net.forward([RowInput(TOKENS[:count], 0, recipe_form, net.empty_state())])[0]


def relative(x: torch.Tensor, y: torch.Tensor) -> float:
    return float((x.double() - y.double()).norm() / y.double().norm())


@pytest.mark.parametrize("form", ["chunk", "recurrent"])
def test_exact_arithmetic_agrees_with_float64(model: Path, form: str) -> None:
    truth, found = run(network(model, ORACLE)), run(network(model, EXACT), form)
    # fp32 through four layers with products of up to 96 terms: some tens of roundings of 6e-8.
    assert relative(found.logits, truth.logits) < 100 * 2.0**-24
    assert relative(found.final.temporal, truth.final.temporal) < 100 * 2.0**-24


@pytest.mark.parametrize("point", ["activation", "conv_out"])
def test_rounding_points_outside_the_kernels_change_logits_and_states(model: Path, point: str) -> None:
    plain, rounded = (run(network(model, r)) for r in (EXACT, replace(EXACT, **{point: Precision.BF16})))
    assert relative(rounded.logits, plain.logits) > 1e-4
    assert relative(rounded.final.temporal, plain.final.temporal) > 1e-4


def test_the_logits_point_rounds_logits_once_and_nothing_else(model: Path) -> None:
    plain, rounded = (run(network(model, r)) for r in (EXACT, replace(EXACT, logits=Precision.BF16)))
    assert torch.equal(rounded.logits, plain.logits.bfloat16().float())
    assert not torch.equal(rounded.logits, plain.logits)
    assert torch.equal(rounded.final.temporal, plain.final.temporal)


def rows_of(net: Network) -> list[RowInput]:
    """Chunk rows of odd lengths, of which one continues a state, then recurrent rows."""
    state = run(net, count=64).final
    empty = net.empty_state()
    return [
        RowInput(TOKENS[64:130], 64, "chunk", state),
        RowInput(TOKENS[3:4], 0, "chunk", empty),
        RowInput(TOKENS[:17], 0, "recurrent", empty),
        RowInput(TOKENS[64:65], 64, "recurrent", state),
    ]


def test_a_row_has_the_same_bits_in_every_pack(sglang: Network) -> None:
    rows = rows_of(sglang)
    alone = [sglang.forward([row])[0] for row in rows]
    for order in permutations(range(4)):
        order_by_form = sorted(order, key=lambda i: rows[i].form)
        for i, found in zip(order_by_form, sglang.forward([rows[i] for i in order_by_form]), strict=True):
            assert torch.equal(found.logits, alone[i].logits)
            assert torch.equal(found.final.temporal, alone[i].final.temporal)
            assert torch.equal(found.final.conv, alone[i].final.conv)


def test_an_absolute_grid_follows_each_rows_own_position(model: Path) -> None:
    recipe = replace(EXACT, grid_origin="absolute")
    net, empty = network(model, recipe), network(model, recipe).empty_state()
    late = RowInput(TOKENS[:100], 30, "chunk", empty, (Tap(1, "accumulator", 34, 34),))
    mates = [RowInput(TOKENS[:5], 0, "recurrent", empty), RowInput(TOKENS[:9], 7, "chunk", empty)]
    alone, packed = net.forward([late])[0], net.forward([*mates, late])[2]
    assert torch.equal(packed.taps[0].temporal, alone.taps[0].temporal)
    cut = net.forward([RowInput(TOKENS[:34], 30, "chunk", empty)])[0]
    assert torch.equal(alone.taps[0].temporal, cut.final.temporal)


def test_logits_are_returned_from_where_they_are_asked_for(sglang: Network) -> None:
    empty, whole = sglang.empty_state(), run(sglang, count=70)
    for first in (0, 69, 70):
        row = RowInput(TOKENS[:70], 0, "chunk", empty, first_logit=first)
        assert torch.equal(sglang.forward([row])[0].logits, whole.logits[first:])


@pytest.mark.parametrize("form", ["chunk", "recurrent"])
def test_a_tap_is_the_state_of_the_row_cut_there(sglang: Network, form: str) -> None:
    taps = (Tap(1, "accumulator", 64, 64), Tap(0, "final", 100, 100), Tap(1, "accumulator", 64, 65))
    row = RowInput(TOKENS[:100], 0, form, sglang.empty_state(), taps)
    at_64, at_end, late_conv = sglang.forward([row])[0].taps
    for found, tokens in ((at_64, 64), (at_end, 100)):
        cut = run(sglang, form, tokens).final
        assert torch.equal(found.temporal, cut.temporal)
        assert torch.equal(found.conv, cut.conv)
        assert len(found.pages) == tokens
    assert torch.equal(late_conv.temporal, at_64.temporal)
    assert torch.equal(late_conv.conv, run(sglang, form, 65).final.conv)


def test_rows_that_are_one_computation_are_run_once_and_answered_apart(
    sglang: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[list[RowInput]] = []
    plain = Network.forward
    monkeypatch.setattr(Network, "forward", lambda self, rows: passes.append(list(rows)) or plain(self, rows))
    state = replace(sglang.empty_state(), identity=b"one")
    tap, other = Tap(1, "accumulator", 64, 64), Tap(1, "chunk-state", 64, 64)
    rows = [
        RowInput(TOKENS[:70], 0, "chunk", state, (tap,), first_logit=69),
        RowInput(TOKENS[:70], 0, "chunk", state, (other, tap), first_logit=60),
        RowInput(TOKENS[:70], 0, "chunk", replace(state, identity=b"two"), (), first_logit=70),
    ]
    results = run_rows(sglang, rows)
    assert [len(rows) for rows in passes] == [2]
    assert [result.logits.shape[0] for result in results] == [1, 10, 0]
    assert torch.equal(results[0].logits, results[1].logits[9:])
    assert torch.equal(results[1].taps[1].temporal, results[0].taps[0].temporal)
    assert results[0].final.identity == results[1].final.identity != results[2].final.identity
    assert results[1].taps[0].identity != results[1].taps[1].identity


def test_passes_of_bounded_size_change_no_bit(sglang: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [replace(row, state=replace(row.state, identity=bytes([i]))) for i, row in enumerate(rows_of(sglang))]
    together = run_rows(sglang, rows)
    monkeypatch.setattr(batch, "MAX_TOKENS", {"cpu": 20})
    for one, other in zip(together, run_rows(sglang, rows), strict=True):
        assert torch.equal(one.logits, other.logits)
        assert torch.equal(one.final.temporal, other.final.temporal)


def test_a_kernel_that_cannot_run_the_recipe_stops_the_network(model: Path) -> None:
    kernels = {form: replace(kernel, recipes=frozenset({"fla"})) for form, kernel in ours(EXACT, "cpu").items()}
    assert all(isinstance(kernel, StateKernel) for kernel in kernels.values())
    with pytest.raises(ValueError, match="doesn't run recipe 'exact'; it runs fla"):
        run(Network(model, EXACT, kernels))
