"""A sequence's bits depend on its own past and on nothing else: not on the pack, not on later tokens, not on strides."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import SnapshotRow, SnapshotSource, StateKernel, run_on_slots
from replaycheck_kernels.recipe import EXACT, SGLANG, Recipe
from tests.kernels.cases import ALL, FAST, name_of, only, random_inputs, random_states, relative

RECIPES = pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)
KERNELS = pytest.mark.parametrize("kernel", FAST, ids=name_of)
TENSORS = ("q", "k", "v", "a", "b")


@RECIPES
@KERNELS
def test_a_sequence_in_a_pack_has_the_bits_that_it_has_alone_in_every_order(
    kernel: StateKernel, recipe: Recipe
) -> None:
    lengths = (1, 65, 17, 128)
    x, initial = random_inputs(lengths, recipe=recipe), random_states(4)
    alone = [kernel(only(x, r), initial[r][None], (), recipe) for r in range(4)]
    for order in permutations(range(4)):
        parts = {name: torch.cat([getattr(only(x, r), name) for r in order]) for name in TENSORS}
        offsets = tuple(sum(lengths[r] for r in order[:n]) for n in range(5))
        packed = kernel(replace(x, **parts, offsets=offsets), initial[list(order)], (), recipe)
        for place, r in enumerate(order):
            assert torch.equal(packed.o[offsets[place] : offsets[place + 1]], alone[r].o)
            assert torch.equal(packed.final[place], alone[r].final[0])


@RECIPES
@KERNELS
@pytest.mark.parametrize("seen", [1, 20, 64, 100])
def test_later_tokens_do_not_change_earlier_outputs(kernel: StateKernel, recipe: Recipe, seen: int) -> None:
    x, initial = random_inputs((130,), recipe=recipe), random_states(1)
    other = random_inputs((130,), recipe=recipe, seed=7)
    mixed = {name: torch.cat([getattr(x, name)[:seen], getattr(other, name)[seen:]]) for name in TENSORS}
    whole = kernel(x, initial, (), recipe).o[:seen]
    assert torch.equal(kernel(replace(x, **mixed), initial, (), recipe).o[:seen], whole)
    assert torch.equal(kernel(only(x, 0, seen), initial, (), recipe).o, whole)


@RECIPES
@KERNELS
def test_a_run_cut_on_the_grid_continues_with_the_same_bits(kernel: StateKernel, recipe: Recipe) -> None:
    x, initial = random_inputs((150,), recipe=recipe), random_states(1)
    whole, head = kernel(x, initial, (), recipe), kernel(only(x, 0, 64), initial, (), recipe)
    rest = replace(x, **{name: getattr(x, name)[64:] for name in TENSORS}, offsets=(0, 86))
    tail = kernel(rest, head.final, (), recipe)
    assert torch.equal(torch.cat([head.o, tail.o]), whole.o)
    assert torch.equal(tail.final, whole.final)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_arguments_are_not_written(kernel: StateKernel) -> None:
    x, initial = random_inputs((70, 5)), random_states(2)
    before = {name: getattr(x, name).clone() for name in (*TENSORS, "A_log", "dt_bias")}
    kept = initial.clone()
    found = kernel(x, initial, (), EXACT)
    assert torch.equal(initial, kept)
    assert all(torch.equal(getattr(x, name), tensor) for name, tensor in before.items())
    assert not torch.equal(found.final.float(), kept)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_strides_of_the_arguments_do_not_matter(kernel: StateKernel) -> None:
    x, initial = random_inputs((70, 5)), random_states(2)
    strided = {name: getattr(x, name).movedim(0, -1).contiguous().movedim(-1, 0) for name in TENSORS}
    turned = initial.transpose(2, 3).contiguous().transpose(2, 3)
    assert not turned.is_contiguous()
    plain, other = kernel(x, initial, (), EXACT), kernel(replace(x, **strided), turned, (), EXACT)
    # torch may sum over a strided axis in another order: a random walk of √K fp32 roundings.
    assert relative(other.o, plain.o) <= 32**0.5 * 2.0**-23
    assert relative(other.final, plain.final) <= 32**0.5 * 2.0**-23


def test_the_compiled_kernel_refuses_states_that_it_cannot_view() -> None:
    with pytest.raises(ValueError, match=r"takes fp32 states on the CPU, not torch\.float64 on cpu"):
        RECURRENT_CPU(random_inputs((5,)), random_states(1).double(), (), EXACT)


POOL_DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["fp32", "bf16", "fp16"]
)


@POOL_DTYPES
@KERNELS
def test_a_call_on_slots_stores_one_cast_and_writes_no_other_slot(kernel: StateKernel, dtype: torch.dtype) -> None:
    x, pool = random_inputs((70, 130)), torch.full((8, 2, 48, 32), float("nan")).to(dtype)
    pool[5] = random_states(1)[0].to(dtype)
    rows = [SnapshotRow(1, 2, 6, SnapshotSource.ACCUMULATOR), SnapshotRow(0, 1, 2, SnapshotSource.ACCUMULATOR)]
    before = pool.clone()
    o = run_on_slots(kernel, x, pool, (-1, 5), (3, 5), rows, EXACT)
    direct = kernel(x, torch.stack([torch.zeros(2, 48, 32), before[5].float()]), rows, EXACT)
    assert torch.equal(o, direct.o)
    for slot, state in ((3, direct.final[0]), (5, direct.final[1]), (6, direct.snapshots[0]), (2, direct.snapshots[1])):
        assert torch.equal(pool[slot], state.to(dtype)), f"slot {slot}"
    untouched = [0, 1, 4, 7]
    assert pool[untouched].isnan().all()


@pytest.mark.parametrize(("destinations", "snapshot"), [((-1,), 3), ((2,), -1)], ids=["final", "snapshot"])
def test_a_negative_destination_is_refused_before_anything_is_written(
    destinations: tuple[int, ...], snapshot: int
) -> None:
    pool = torch.full((4, 2, 48, 32), float("nan"))
    rows = [SnapshotRow(0, 0, snapshot, SnapshotSource.ACCUMULATOR)]
    with pytest.raises(ValueError, match="must be slots from 0 to 3"):
        run_on_slots(RECURRENT_CPU, random_inputs((5,)), pool, (-1,), destinations, rows, EXACT)
    assert pool.isnan().all()
