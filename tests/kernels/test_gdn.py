"""One decay a head (GDN) and more value heads than heads of q and k, in every kernel; decays on products or operands."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import torch

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, StateKernel
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.precision import Precision, Rounding
from replaycheck_kernels.recipe import EXACT, FLA, SGLANG_GDN, VLLM, Recipe
from tests.kernels.cases import (
    ALL,
    BOUNDED,
    FAST,
    GDN,
    GROUPED_GDN,
    GROUPED_KDA,
    KDA,
    Layer,
    name_of,
    only,
    random_inputs,
    random_states,
    ratio,
    relative,
    tap,
)

KERNELS = pytest.mark.parametrize("kernel", FAST, ids=name_of)
LATE = replace(EXACT, name="late", decay_on="products", scale_on="output")
TENSORS = ("q", "k", "v", "a", "b")
GROUPED = pytest.mark.parametrize("layer", [GROUPED_KDA, GROUPED_GDN], ids=lambda layer: layer.name)


def states(layer: Layer, sequences: int) -> torch.Tensor:
    return random_states(sequences, heads=layer.value_heads)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_one_decay_a_head_is_the_same_decay_in_every_channel(kernel: StateKernel) -> None:
    x, initial = random_inputs((130, 17), layer=GDN), random_states(2)
    spread = replace(x, a=x.a.expand(-1, -1, 32), dt_bias=x.dt_bias.expand(-1, 32))
    one, many = kernel(x, initial, (), EXACT), kernel(spread, initial, (), EXACT)
    assert torch.equal(one.o, many.o)
    assert torch.equal(one.final, many.final)


@GROUPED
@KERNELS
def test_a_value_head_reads_the_q_and_k_of_its_group(layer: Layer, kernel: StateKernel) -> None:
    x, initial = random_inputs((70, 5), layer=layer), states(layer, 2)
    found = kernel(x, initial, (), EXACT)
    for head in range(layer.value_heads):
        shared, own = slice(head * layer.heads // layer.value_heads, None), slice(head, head + 1)
        parts: dict[str, Any] = {name: getattr(x, name)[:, own] for name in ("v", "a", "b")}
        parts |= {name: getattr(x, name)[:, shared][:, :1] for name in ("q", "k")}
        alone = kernel(replace(x, **parts, A_log=x.A_log[own], dt_bias=x.dt_bias[own]), initial[:, own], (), EXACT)
        assert torch.equal(found.o[:, own], alone.o)
        assert torch.equal(found.final[:, own], alone.final)


def _head_major(x: KdaInputs) -> KdaInputs:
    """Value head h reads head h % H instead of h // group."""
    order = [0, 2, 1, 3]
    return replace(x, v=x.v[:, order], a=x.a[:, order], b=x.b[:, order])


@KERNELS
def test_another_assignment_of_heads_exceeds_the_prediction(kernel: StateKernel) -> None:
    wrong = replace(kernel, forward=lambda x, *rest: kernel.forward(_head_major(x), *rest))
    x = random_inputs((70,), layer=GROUPED_GDN)
    assert ratio(wrong, x, states(GROUPED_GDN, 1), EXACT, EXACT) > 1000


@pytest.mark.parametrize("base", ["2", "e"])
@pytest.mark.parametrize("layer", [GDN, GROUPED_GDN, replace(GDN, name="bounded", lower_bound=-5.0)], ids=str)
@pytest.mark.parametrize("regime", ["mild", "kimi", "strong"])
def test_decays_on_products_are_within_the_prediction(regime: str, layer: Layer, base: Any) -> None:
    recipe = replace(LATE, exp_base=base)
    x = random_inputs((1, 15, 16, 17, 63, 64, 65, 130), regime=regime, layer=layer)
    assert ratio(CHUNK_EMULATOR, x, states(layer, 8), recipe, recipe) <= 1


def test_decays_on_products_are_another_rounding_than_on_operands() -> None:
    x, initial = random_inputs((130,), layer=GDN), random_states(1)
    late, early = (CHUNK_EMULATOR(x, initial, (), recipe) for recipe in (LATE, EXACT))
    assert not torch.equal(late.o, early.o)
    assert relative(late.o, early.o) < 2 * predict_for(x, EXACT, "chunk").output


@pytest.mark.parametrize("layer", [KDA, BOUNDED], ids=lambda layer: layer.name)
def test_a_decay_a_channel_cannot_be_on_products(layer: Layer) -> None:
    x, initial, scaled = random_inputs((130,), layer=layer), random_states(1), replace(EXACT, scale_on="output")
    assert torch.equal(CHUNK_EMULATOR(x, initial, (), LATE).o, CHUNK_EMULATOR(x, initial, (), scaled).o)


def test_the_decayed_v_new_is_rounded_once_from_fp32_and_touches_the_next_chunk() -> None:
    x, initial = random_inputs((130,), regime="mild", layer=GDN), random_states(1)
    plain = CHUNK_EMULATOR(x, initial, (), LATE)
    rounded = CHUNK_EMULATOR(x, initial, (), replace(LATE, v_decayed=Precision.BF16))
    assert torch.equal(rounded.o[:64], plain.o[:64])
    noise = 2 * predict_for(x, LATE, "chunk").state
    assert relative(rounded.final, plain.final) > noise
    assert relative(rounded.o[64:], plain.o[64:]) > noise
    stored = CHUNK_EMULATOR(x, initial, (), replace(LATE, v_new=Precision.BF16))
    assert torch.equal(stored.final, plain.final), "the stored Vnew is for o alone"
    assert relative(stored.o, plain.o) > noise


@pytest.mark.parametrize("point", ["k_decayed", "q_decayed", "q_scaled", "diagonal_operand"])
def test_points_of_decayed_operands_do_nothing_where_decays_are_on_products(point: str) -> None:
    x, initial = random_inputs((70,), layer=GDN), random_states(1)
    spoiled = replace(LATE, **{point: Precision.BF16})
    assert torch.equal(CHUNK_EMULATOR(x, initial, (), spoiled).o, CHUNK_EMULATOR(x, initial, (), LATE).o)
    assert predict_for(x, spoiled, "chunk") == predict_for(x, LATE, "chunk")


def test_decays_on_products_survive_spans_that_overflow_above_the_diagonal() -> None:
    """One token of −100 nat: e^100 above the diagonal is infinite in fp32, and must be dropped, not multiplied by zero."""
    x, initial = random_inputs((64,), regime="mild", layer=GDN), random_states(1)
    x.a[20] = 103.2
    # Every later pair counts and takes the difference of two rounded G of 104 nat, where the prediction has one.
    assert ratio(CHUNK_EMULATOR, x, initial, LATE, LATE) <= 2**0.5


def test_fla_and_sglang_round_the_decayed_v_new_and_sglang_takes_natural_exponentials() -> None:
    assert (FLA.v_decayed, SGLANG_GDN.v_decayed) == (Precision.BF16, Precision.BF16)
    assert (FLA.exp_base, SGLANG_GDN.exp_base) == ("2", "e")
    assert (FLA.beta, SGLANG_GDN.beta) == (Precision.FP32, Precision.BF16)


@KERNELS
def test_beta_rounded_to_bf16_is_a_choice_of_the_recipe(kernel: StateKernel) -> None:
    x, initial = random_inputs((70,), layer=GDN), random_states(1)
    point = "beta" if kernel.form == "chunk" else "recurrent_beta"
    in_fp32 = replace(SGLANG_GDN, **{point: Precision.FP32})
    assert not torch.equal(kernel(x, initial, (), SGLANG_GDN).final, kernel(x, initial, (), in_fp32).final)


PACKS = pytest.mark.parametrize(
    ("recipe", "layer"),
    [(SGLANG_GDN, GDN), (FLA, GROUPED_GDN), (VLLM, GROUPED_KDA), (EXACT, GDN)],
    ids=lambda value: value.name,
)


@PACKS
@KERNELS
def test_a_sequence_in_a_pack_has_the_bits_that_it_has_alone(kernel: StateKernel, recipe: Recipe, layer: Layer) -> None:
    lengths = (1, 65, 17)
    x, initial = random_inputs(lengths, recipe=recipe, layer=layer), states(layer, 3)
    alone = [kernel(only(x, r), initial[r][None], (), recipe) for r in range(3)]
    for order in permutations(range(3)):
        parts = {name: torch.cat([getattr(only(x, r), name) for r in order]) for name in TENSORS}
        offsets = tuple(sum(lengths[r] for r in order[:n]) for n in range(4))
        packed = kernel(replace(x, **parts, offsets=offsets), initial[list(order)], (), recipe)
        assert torch.equal(packed.o, torch.cat([alone[r].o for r in order]))
        assert torch.equal(packed.final, torch.cat([alone[r].final for r in order]))


@PACKS
@KERNELS
def test_a_snapshot_is_the_final_state_of_the_run_cut_there(kernel: StateKernel, recipe: Recipe, layer: Layer) -> None:
    x, initial = random_inputs((130,), recipe=recipe, layer=layer), states(layer, 1)
    whole = kernel(x, initial, (tap(1), tap(2)), recipe)
    for chunk, state in ((1, whole.snapshots[0]), (2, whole.snapshots[1])):
        assert torch.equal(state, kernel(only(x, 0, 64 * chunk), initial, (), recipe).final[0])


def test_rounding_toward_zero_reaches_the_points_of_gdn() -> None:
    x, initial = random_inputs((130,), layer=GDN), random_states(1)
    recipe = replace(LATE, v_decayed=Precision.BF16)
    down = replace(recipe, rounding=Rounding.TOWARD_ZERO)
    assert not torch.equal(CHUNK_EMULATOR(x, initial, (), down).final, CHUNK_EMULATOR(x, initial, (), recipe).final)


@pytest.mark.parametrize(
    ("tensor", "cut", "message"),
    [
        ("v", (slice(None), slice(3)), "3 value heads aren't a multiple of the 2 heads of q and k"),
        ("a", (slice(None), slice(2)), "a has shape (5, 2, 1); (5, 4, 1) is needed"),
        ("b", (slice(None), slice(2)), "b has shape (5, 2); (5, 4) is needed"),
        ("k", (slice(None), slice(1)), "k has shape (5, 1, 32); (5, 2, 32) is needed"),
        ("dt_bias", (slice(None), 0), "dt_bias has shape (4,); (4, 1) is needed"),
        ("A_log", slice(1), "A_log has shape (1,); (4,) is needed"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_shapes_that_would_broadcast_are_refused(kernel: StateKernel, tensor: str, cut: Any, message: str) -> None:
    x = random_inputs((5,), layer=GROUPED_GDN)
    with pytest.raises(ValueError, match=re.escape(f"{kernel.name}: {message}")):
        kernel(replace(x, **{tensor: getattr(x, tensor)[cut]}), states(GROUPED_GDN, 1), (), EXACT)
