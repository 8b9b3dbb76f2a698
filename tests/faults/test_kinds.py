"""Each kind of fault does to its subject what it says, on tensors small enough to see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from replaycheck.faults import casts, kernels, pools, shards
from replaycheck.probes.kernels import inputs, regimes
from replaycheck.schedule.parallel import Geometry, plan_ranks
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.recipe import EXACT, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.registry import ours

INSIDE = SnapshotSource.ACCUMULATOR


@pytest.fixture(scope="module")
def call() -> tuple[KdaInputs, torch.Tensor]:
    x = inputs(next(iter(regimes(0))), EXACT, 0)  # lengths 130, 1, 63, 64, 65
    draws = torch.Generator().manual_seed(1)
    return x, torch.randn(x.sequences, 2, 96, 128, generator=draws) * 0.1


def snapshots(kernel: StateKernel, call: tuple[KdaInputs, torch.Tensor], *rows: tuple[int, int]) -> torch.Tensor:
    asked = [SnapshotRow(sequence, chunk, -1, INSIDE) for sequence, chunk in rows]
    return kernel(call[0], call[1], asked, EXACT).snapshots


MISTAKES = {
    "decay_rule": {"decay_rule": "swapped"},
    "decay_bias": {"decay_bias": "dropped"},
    "decay_unit": {"decay_unit": "mixed"},
    "decay_at": {"decay_at": "last"},
    "beta twice": {"beta_site": "twice"},
    "beta nowhere": {"beta_site": "nowhere"},
    "scale": {"scale_times": 2},
    "epsilon": {"norm_epsilon": 100.0},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_recipe_is_the_same_one_in_both_forms(name: str, call: tuple[KdaInputs, torch.Tensor]) -> None:
    recipe: Recipe = replace(EXACT, **MISTAKES[name])  # type: ignore[arg-type]
    right = CHUNK_EMULATOR(*call, (), EXACT)
    chunk, recurrent = (kernel(*call, (), recipe) for kernel in (CHUNK_EMULATOR, RECURRENT_TORCH))
    size = right.o.norm()
    assert float((chunk.o - right.o).norm() / size) > 1e-2
    assert float((chunk.o - recurrent.o).norm() / chunk.o.norm()) < 2e-6
    assert float((chunk.final - recurrent.final).norm() / chunk.final.norm()) < 2e-6


def test_the_compiled_kernel_refuses_another_order_and_torch_takes_its_place(
    call: tuple[KdaInputs, torch.Tensor],
) -> None:
    late = replace(EXACT, decay_at="last")
    with pytest.raises(ValueError, match="ours/recurrent-cpu has no decay_at = last; take ours/recurrent-torch"):
        RECURRENT_CPU(*call, (), late)
    assert ours(late, "cpu")["recurrent"] is RECURRENT_TORCH
    assert ours(EXACT, "cpu")["recurrent"] is RECURRENT_CPU


def test_rotated_rows_are_those_of_the_next_sequence(call: tuple[KdaInputs, torch.Tensor]) -> None:
    right = snapshots(CHUNK_EMULATOR, call, (1, 0), (0, 2))
    wrong = snapshots(kernels.rotated_rows(CHUNK_EMULATOR), call, (0, 0), (4, 1))
    assert torch.equal(wrong[0], right[0])
    assert torch.equal(wrong[1], snapshots(CHUNK_EMULATOR, call, (0, 1))[0])


def test_floored_rows_are_right_for_the_first_sequence_and_wrong_behind_a_partial_chunk(
    call: tuple[KdaInputs, torch.Tensor],
) -> None:
    wrong = snapshots(kernels.floor_rows(CHUNK_EMULATOR), call, (0, 1), (4, 1))
    # ⌊130/64⌋ + 0 + 0 + 1 + 1 = 4 rows in; with ⌈n/64⌉ that is the one chunk of the third sequence.
    right = snapshots(CHUNK_EMULATOR, call, (0, 1), (2, 0))
    assert torch.equal(wrong, right)


@pytest.mark.parametrize("by", [-1, 1])
def test_one_token_off_is_the_state_of_a_call_that_is_a_token_longer_or_shorter(
    by: int, call: tuple[KdaInputs, torch.Tensor]
) -> None:
    x, initial = call
    wrong = snapshots(kernels.one_token_off(by)(CHUNK_EMULATOR), call, (0, 1))[0]
    part = x.between(0, 1)
    cut = {name: getattr(part, name)[: 64 + by] for name in ("q", "k", "v", "a", "b")}
    alone = CHUNK_EMULATOR(replace(part, **cut, offsets=(0, 64 + by)), initial[:1], (), EXACT).final[0]
    assert torch.equal(wrong, alone)


def test_a_kernel_that_rounds_at_each_chunk_is_right_up_to_the_first(call: tuple[KdaInputs, torch.Tensor]) -> None:
    wrong = kernels.rounds_each_chunk(torch.bfloat16)(CHUNK_EMULATOR)
    found, right = (kernel(*call, (), EXACT) for kernel in (wrong, CHUNK_EMULATOR))
    assert torch.equal(found.o[:64], right.o[:64])
    # The state that the second chunk reads is off by up to 2^-9 of it; in fp32 alone it would be 2^-24.
    assert float((found.o[64:130] - right.o[64:130]).norm() / right.o[64:130].norm()) > 2.0**-12
    assert torch.equal(found.final, found.final.bfloat16().float())


@pytest.mark.parametrize(
    ("cast", "given", "dtype", "wanted"),
    [
        (casts.via_bf16, 1 + 2.0**-11 + 2.0**-23, torch.float16, 1.0),
        (casts.via_fp16, 1 + 2.0**-8 + 2.0**-12, torch.bfloat16, 1.0),
        (casts.flushing, 2.0**-15, torch.float16, 0.0),
        (casts.flushing, 2.0**-15, torch.bfloat16, 2.0**-15),
        (casts.truncating, -(1 + 2.0**-7 - 2.0**-20), torch.bfloat16, -1.0),
        (casts.truncating, 1 + 2.0**-20, torch.float32, 1 + 2.0**-20),
        (casts.scaled, 2.0**-7, torch.float16, float("inf")),
        (casts.scaled, 2.0**-7, torch.bfloat16, 2.0**-7),
    ],
)
def test_a_cast_ends_at_the_wrong_number(cast: object, given: float, dtype: torch.dtype, wanted: float) -> None:
    found = cast(torch.tensor([given]), dtype)  # type: ignore[operator]
    assert found.dtype is dtype
    assert float(found[0]) == wanted


def state(value: float, pages: int) -> SequenceState:
    temporal = torch.full((2, 2, 3, 4), value)
    temporal[1] += 1
    conv = torch.arange(2 * 3 * 12, dtype=torch.float32).view(2, 3, 12) + value
    return SequenceState(conv, temporal, np.arange(pages), bytes([pages]))


def pool_of(wrong: pools.PoolFault) -> Pool:
    return wrong(Pool)(5, state(0.0, 0), torch.float32, torch.bfloat16, "test")


def test_a_hit_longer_than_its_state_takes_the_longest_stored_prefix() -> None:
    pool = pool_of(pools.pages_beyond_state)
    pool.store(1, state(1.0, 2))
    pool.store(2, state(2.0, 4))
    pool.copy(2, 3)
    assert torch.equal(pool.load(3).temporal, pool.load(1).temporal)
    assert len(pool.load(3).pages) == 4


def test_a_slice_of_all_channels_keeps_them_and_changes_their_order() -> None:
    pool = pool_of(pools.conv_channels_sliced)
    pool.store(1, state(1.0, 2))
    pool.copy(1, 2)
    before, after = pool.load(1).conv.float()[0, 0], pool.load(2).conv.float()[0, 0]
    assert sorted(before.tolist()) == sorted(after.tolist())
    assert before.tolist() != after.tolist()


def test_a_contiguous_cut_has_the_right_size_and_other_channels() -> None:
    plan = plan_ranks(Geometry(key_heads=2, value_heads=2, key=4, value=4), 2)
    wrong = shards.contiguous("state.conv")(plan)
    for right, cut in zip(plan.ranks, wrong.ranks, strict=True):
        a, b = right.cuts["state.conv"], cut.cuts["state.conv"]
        assert a and b and len(a.indices()) == len(b.indices()) and a.indices() != b.indices()
