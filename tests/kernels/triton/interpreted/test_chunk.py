"""The chunk form in Triton's interpreter: against oracle and emulator, and bit for bit against itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.recipe import EXACT, SGLANG, SGLANG_DIRECT, SGLANG_GDN, Recipe
from replaycheck_kernels.triton import launch
from replaycheck_kernels.triton.kernels import CHUNK_TRITON, chunk_on_pool, widened, widths
from tests.kernels.cases import (
    GROUPED_GDN,
    KDA,
    Layer,
    only,
    random_inputs,
    random_states,
    ratio,
    relative,
    tap,
)

K, V = 16, 32
LENGTHS = (70, 1, 64)
ONE = Layer("kda-one-head", 1, 1)
BOUNDED_ONE = Layer("kda-bounded-one-head", 1, 1, lower_bound=-5.0)


@cache
def pack(recipe: Recipe, layer: Layer, regime: str) -> tuple[KdaInputs, Tensor, list[SnapshotRow], KdaOutput]:
    """Inputs, initial states, a snapshot at every chunk, and what the kernel makes of them."""
    x = random_inputs(LENGTHS, K, V, regime, recipe, layer=layer)
    initial = random_states(3, K, V, heads=layer.value_heads)
    rows = [tap(0), tap(1), tap(0, sequence=1), tap(0, sequence=2)]
    return x, initial, rows, CHUNK_TRITON(x, initial, rows, recipe)


CASES = pytest.mark.parametrize(
    ("recipe", "layer", "regime"),
    [
        (EXACT, KDA, "kimi"),
        (EXACT, BOUNDED_ONE, "strong"),
        (SGLANG, KDA, "kimi"),
        (SGLANG, GROUPED_GDN, "mild"),
        (SGLANG_DIRECT, BOUNDED_ONE, "kimi"),
        (SGLANG_GDN, GROUPED_GDN, "kimi"),
        (SGLANG_GDN, GROUPED_GDN, "strong"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
TWO = pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)


@CASES
def test_errors_are_within_what_the_recipe_predicts(recipe: Recipe, layer: Layer, regime: str) -> None:
    x, initial, rows, found = pack(recipe, layer, regime)
    assert ratio(replace(CHUNK_TRITON, forward=lambda *_: found), x, initial, recipe, recipe) < 1
    truth = ORACLE_KERNEL(x, initial, rows, recipe)
    assert relative(found.snapshots, truth.snapshots) < predict_for(x, recipe, "chunk").state


@CASES
def test_roundings_are_the_emulators(recipe: Recipe, layer: Layer, regime: str) -> None:
    """Sums run in another order, which moves a few bf16 values over a boundary: 0.2 % of o at most (measured)."""
    x, initial, rows, found = pack(recipe, layer, regime)
    want = CHUNK_EMULATOR(x, initial, rows, recipe)
    if recipe is EXACT:
        assert relative(found.o, want.o) < 2 * predict_for(x, recipe, "chunk").output
    else:
        assert float((found.o != want.o).double().mean()) < 0.01
        assert relative(found.final, want.final) < predict_for(x, recipe, "chunk").state / 10


def test_a_reference_of_another_recipe_would_show() -> None:
    """The comparison above can tell recipes apart: without the rounding of off-diagonal operands more of o differs."""
    x, initial, _, found = pack(SGLANG, ONE, "kimi")
    other = CHUNK_EMULATOR(x, initial, (), replace(SGLANG, intra_operand=EXACT.intra_operand))
    assert float((found.o != other.o).double().mean()) > 0.01


@TWO
def test_a_sequence_has_its_bits_in_every_pack(recipe: Recipe) -> None:
    x, initial, _, found = pack(recipe, ONE, "kimi")
    order = (2, 0, 1)
    parts = {name: torch.cat([getattr(only(x, r), name) for r in order]) for name in ("q", "k", "v", "a", "b")}
    ends = torch.tensor([0, *(LENGTHS[r] for r in order)]).cumsum(0).tolist()
    again = CHUNK_TRITON(replace(x, **parts, offsets=tuple(ends)), initial[list(order)], (), recipe)
    assert torch.equal(again.final, found.final[list(order)])
    assert torch.equal(again.o, torch.cat([found.o[x.offsets[r] : x.offsets[r + 1]] for r in order]))


@TWO
@pytest.mark.parametrize("length", [1, 15, 17, 33, 64, 65])
def test_a_prefix_has_its_bits_whatever_follows(recipe: Recipe, length: int) -> None:
    x, initial, _, found = pack(recipe, ONE, "kimi")
    again = CHUNK_TRITON(only(x, 0, length), initial[:1], (), recipe)
    assert torch.equal(again.o, found.o[:length])


@TWO
def test_other_later_tokens_change_nothing(recipe: Recipe) -> None:
    x, initial, _, found = pack(recipe, ONE, "kimi")
    draws = torch.Generator().manual_seed(7)
    y = only(x, 0)
    for name in ("q", "k", "v", "a", "b"):
        tensor = getattr(y, name).clone()
        tensor[21:] = torch.randn(tensor[21:].shape, generator=draws).bfloat16().float() * 3
        y = replace(y, **{name: tensor})
    again = CHUNK_TRITON(y, initial[:1], (), recipe)
    assert torch.equal(again.o[:21], found.o[:21]) and not torch.equal(again.o[21:], found.o[21:70])


@TWO
def test_a_snapshot_is_the_prefixs_final_state_and_restores(recipe: Recipe) -> None:
    x, initial, rows, found = pack(recipe, ONE, "kimi")
    assert torch.equal(found.snapshots[0], initial[0]) and torch.equal(found.snapshots[2:], initial[1:])
    assert torch.equal(CHUNK_TRITON(only(x, 0, 64), initial[:1], (), recipe).final[0], found.snapshots[1])
    rest = replace(only(x, 0), **{n: getattr(x, n)[64:70] for n in ("q", "k", "v", "a", "b")}, offsets=(0, 6))
    again = CHUNK_TRITON(rest, found.snapshots[1:2], (), recipe)
    assert torch.equal(again.o, found.o[64:70]) and torch.equal(again.final[0], found.final[0])
    stored = [replace(row, source=SnapshotSource.CHUNK_STATE) for row in rows]
    expected = found.snapshots.bfloat16().float() if recipe is SGLANG else found.snapshots
    assert torch.equal(CHUNK_TRITON(x, initial, stored, recipe).snapshots, expected)


GDN_ONE = Layer("gdn-one-head", 1, 1, per_head=True)


def test_with_decays_on_the_products_a_sequence_depends_on_itself_and_its_past_only() -> None:
    """Prefixes, packs, later tokens and restores, as above, for ``sglang-gdn``."""
    x, initial, rows, found = pack(SGLANG_GDN, GDN_ONE, "kimi")
    for length in (1, 17, 64, 65):
        assert torch.equal(CHUNK_TRITON(only(x, 0, length), initial[:1], (), SGLANG_GDN).o, found.o[:length])
    assert torch.equal(CHUNK_TRITON(only(x, 2), initial[2:], (), SGLANG_GDN).final[0], found.final[2])
    assert torch.equal(CHUNK_TRITON(only(x, 0, 64), initial[:1], (), SGLANG_GDN).final[0], found.snapshots[1])
    rest = replace(only(x, 0), **{n: getattr(x, n)[64:70] for n in ("q", "k", "v", "a", "b")}, offsets=(0, 6))
    again = CHUNK_TRITON(rest, found.snapshots[1:2], (), SGLANG_GDN)
    assert torch.equal(again.o, found.o[64:70]) and torch.equal(again.final[0], found.final[0])
    assert torch.equal(found.snapshots[[0, 2, 3]], initial) and len(rows) == 4


def test_where_the_decay_is_multiplied_would_show() -> None:
    x, initial, _, found = pack(SGLANG_GDN, GDN_ONE, "kimi")
    for other in (replace(SGLANG_GDN, v_decayed=EXACT.v_decayed), replace(SGLANG_GDN, beta=EXACT.beta), SGLANG):
        want = CHUNK_EMULATOR(x, initial, (), other)
        assert float((found.o != want.o).double().mean()) > 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_pool_is_updated_in_place_and_nothing_else_is_touched(dtype: torch.dtype) -> None:
    x, initial, rows, _ = pack(SGLANG, ONE, "kimi")
    pool = torch.full((6, *initial.shape[1:]), torch.nan, dtype=dtype)
    slots = [4, 1, 5]
    pool[slots] = initial.to(dtype)
    expected = CHUNK_TRITON(x, pool[slots].float(), rows, SGLANG)
    result = chunk_on_pool(x, pool, slots, rows, SGLANG)
    assert torch.equal(result.o.float(), expected.o)
    assert torch.equal(pool[slots], expected.final.to(dtype)) and pool[[0, 2, 3]].isnan().all()
    assert torch.equal(torch.stack([result.taps[row] for row in rows]), expected.snapshots)


@pytest.mark.parametrize("layer", [ONE, GDN_ONE], ids=lambda layer: layer.name)
def test_channels_of_zeros_change_no_value(layer: Layer) -> None:
    """What runs on a GPU with few keys: K = 32 (whose root isn't a power of two) among 64, V = 48 among 64."""
    x = random_inputs((70, 3), 32, 48, "kimi", SGLANG, layer=layer)
    assert widths(x) == (64, 64)
    initial, rows = random_states(2, 32, 48, heads=1), [tap(1), tap(0, sequence=1)]
    pools = [torch.full((4, 1, 48, 32), torch.nan) for _ in range(2)]
    for pool in pools:
        pool[[2, 1]] = initial
    plain = chunk_on_pool(x, pools[0], [2, 1], rows, SGLANG)
    found = widened(x, pools[1], [2, 1], rows, SGLANG, launch)
    assert found.o.shape == plain.o.shape and pools[1][[0, 3]].isnan().all()
    # Sums over more channels run in another order here, as against the emulator above.
    allowed = predict_for(x, SGLANG, "chunk").state / 10
    assert float((found.o != plain.o).double().mean()) < 0.01
    assert relative(pools[1][[2, 1]], pools[0][[2, 1]]) < allowed
    for row in rows:
        assert relative(found.taps[row], plain.taps[row]) < allowed
