"""The recurrent form in Triton's interpreter: states per position, taps, pool dtypes, stochastic rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import Precision, spacing
from replaycheck_kernels.recipe import EXACT, FLA, SGLANG, SGLANG_GDN, VLLM, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.triton import launch, tables
from replaycheck_kernels.triton.kernels import RECURRENT_TRITON, _prepared, recurrent_on_pool
from tests.kernels.cases import (
    BOUNDED,
    GDN,
    GROUPED_KDA,
    KDA,
    Layer,
    only,
    random_inputs,
    random_states,
    ratio,
    relative,
    tap,
)

K, V = 32, 16
ONE = Layer("kda-one-head", 1, 1)
POOLS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


@pytest.mark.parametrize(
    ("recipe", "layer", "regime"),
    [
        (EXACT, KDA, "kimi"),
        (EXACT, GROUPED_KDA, "strong"),
        (SGLANG, BOUNDED, "mild"),
        (SGLANG_GDN, GDN, "kimi"),
        (VLLM, KDA, "strong"),
        (FLA, GDN, "mild"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_errors_are_within_what_the_recipe_predicts(recipe: Recipe, layer: Layer, regime: str) -> None:
    x = random_inputs((6, 1, 2), K, V, regime, recipe, layer=layer)
    initial = random_states(3, K, V, heads=layer.value_heads)
    assert ratio(RECURRENT_TRITON, x, initial, recipe, recipe) < 1
    found, want = RECURRENT_TRITON(x, initial, (), recipe), RECURRENT_TORCH(x, initial, (), recipe)
    assert relative(found.final, want.final) < predict_for(x, EXACT, "recurrent").state


def test_snapshots_at_chunk_starts_and_the_bits_of_a_restore() -> None:
    x, initial = random_inputs((66, 2), K, V, recipe=SGLANG, layer=ONE), random_states(2, K, V, heads=1)
    rows = [tap(1), tap(0), tap(0, sequence=1)]
    found = RECURRENT_TRITON(x, initial, rows, SGLANG)
    assert torch.equal(found.snapshots[1:], initial)
    assert torch.equal(found.snapshots[0], RECURRENT_TRITON(only(x, 0, 64), initial[:1], (), SGLANG).final[0])
    assert relative(found.snapshots, ORACLE_KERNEL(x, initial, rows, SGLANG).snapshots) < 1e-6
    rest = replace(only(x, 0), **{n: getattr(x, n)[64:66] for n in ("q", "k", "v", "a", "b")}, offsets=(0, 2))
    again = RECURRENT_TRITON(rest, found.snapshots[:1], (), SGLANG)
    assert torch.equal(again.o, found.o[64:66]) and torch.equal(again.final[0], found.final[0])


def verify(x: KdaInputs, pool: Tensor, sources: list[int], finals: list[int], steps: list[int]) -> Tensor:
    """A call as an engine verifies drafts: the state after each token to a slot of its own."""
    none = tables.taps([], x.offsets[-1], pool.shape[1:], "cpu")
    layout, slots = tables.layout(x.offsets, x.v.device), tables.slots(sources, finals, "cpu")
    return launch.recurrent_forward(
        _prepared(x, SGLANG), layout, pool, slots, none, tables.integers(steps, "cpu"), False
    )


@POOLS
def test_states_of_positions_go_to_their_slots(dtype: torch.dtype) -> None:
    x, initial = random_inputs((3, 2), K, V, recipe=SGLANG), random_states(2, K, V)
    pool = torch.full((9, *initial.shape[1:]), torch.nan, dtype=dtype)
    pool[[6, 2]] = initial.to(dtype)
    start = pool[[6, 2]].float()
    verify(x, pool, [6, 2], [-1, 0], [5, -1, 8, 1, -1])
    for slot, sequence, tokens in ((5, 0, 1), (8, 0, 3), (1, 1, 1), (0, 1, 2)):
        alone = RECURRENT_TRITON(only(x, sequence, tokens), start[sequence][None], (), SGLANG)
        assert torch.equal(pool[slot], alone.final[0].to(dtype))
    assert torch.equal(pool[[6, 2]].float(), start) and pool[[3, 4, 7]].isnan().all()


@POOLS
def test_a_pool_is_updated_in_place(dtype: torch.dtype) -> None:
    x, initial = random_inputs((3, 1), K, V, recipe=SGLANG), random_states(2, K, V)
    pool = torch.full((4, *initial.shape[1:]), torch.nan, dtype=dtype)
    pool[[3, 1]] = initial.to(dtype)
    expected = RECURRENT_TRITON(x, pool[[3, 1]].float(), (), SGLANG)
    result = recurrent_on_pool(x, pool, [3, 1], (), SGLANG)
    assert torch.equal(result.o.float(), expected.o)
    assert torch.equal(pool[[3, 1]], expected.final.to(dtype)) and pool[[0, 2]].isnan().all()


def drawn(dtype: torch.dtype, seeds: list[int], sequences: int = 1, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Stored states [R, H, V, K] of one token with stochastic rounding, and what is rounded."""
    x = random_inputs((1,) * sequences, K, V, recipe=SGLANG)
    initial = (random_states(sequences, K, V) * scale).to(dtype).float()
    x = replace(x, v=x.v * scale)
    pool = torch.cat([initial, initial]).to(dtype)
    places = list(range(sequences))
    slots = tables.slots(places, [sequences + r for r in places], "cpu", seeds)
    none = tables.taps([], sequences, pool.shape[1:], "cpu")
    layout, steps = tables.layout(x.offsets, x.v.device), tables.integers([-1] * sequences, "cpu")
    launch.recurrent_forward(_prepared(x, SGLANG), layout, pool, slots, none, steps, False)
    return pool[sequences:].float(), RECURRENT_TRITON(x, initial, (), SGLANG).final


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.bfloat16, 1.0), (torch.float16, 1.0), (torch.float16, 2.0**-20)],
    ids=["bf16", "fp16", "fp16-subnormal"],
)
def test_stochastic_rounding_goes_to_a_neighbour_and_is_right_on_average(dtype: torch.dtype, scale: float) -> None:
    runs = [drawn(dtype, [seed], scale=scale) for seed in range(6)]
    exact = runs[0][1].double()
    unit = spacing(exact, Precision.BF16 if dtype is torch.bfloat16 else Precision.FP16)
    errors = torch.stack([stored.double() - exact for stored, _ in runs]) / unit
    assert errors.abs().max() <= 1
    # Of uniform dither: the error of one draw has at most variance 1/4; five standard deviations of the mean.
    assert errors.mean().abs() < 5 * 0.5 / errors.numel() ** 0.5
    assert (runs[0][0] != runs[1][0]).any()


def test_stochastic_rounding_depends_on_seed_and_element_only() -> None:
    stored, _ = drawn(torch.bfloat16, [3, 4], 2)
    again, _ = drawn(torch.bfloat16, [3, 9], 2)
    assert torch.equal(stored[0], again[0]) and not torch.equal(stored[1], again[1])
