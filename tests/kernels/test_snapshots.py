"""Snapshots are the state that a run cut there would have ended with, bit for bit; impossible ones are refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.grid import chunk_map
from replaycheck_kernels.recipe import EXACT, SGLANG, Recipe
from tests.kernels.cases import ALL, FAST, RECURRENT, WIDTHS, name_of, only, random_inputs, random_states, tap

RECIPES = pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)


@RECIPES
@pytest.mark.parametrize(("key", "value"), WIDTHS)
@pytest.mark.parametrize("kernel", FAST, ids=name_of)
def test_the_accumulator_at_a_chunk_is_the_final_state_of_the_run_cut_there(
    kernel: StateKernel, key: int, value: int, recipe: Recipe
) -> None:
    x, initial = random_inputs((200, 65), key, value, recipe=recipe), random_states(2, key, value)
    rows = [tap(c, sequence=r) for r, chunks in ((1, 2), (0, 4)) for c in range(chunks)]
    found = kernel(x, initial, rows, recipe)
    for row, state in zip(rows, found.snapshots, strict=True):
        if row.chunk == 0:
            assert torch.equal(state, initial[row.sequence])
            continue
        cut = kernel(only(x, row.sequence, 64 * row.chunk), initial[row.sequence][None], (), recipe)
        assert torch.equal(state, cut.final[0])


def test_chunks_of_a_pack_are_counted_as_the_engines_count_them() -> None:
    """Extends of 130, 100 and 63 tokens: rows of h begin at 0, 3 and 5, and rows 2 and 4 hold the last chunk starts."""
    chunks = chunk_map(random_inputs((130, 100, 63)), EXACT)
    assert chunks.first == (0, 3, 5, 6)
    assert (chunks.row(0, 130 // 64), chunks.row(1, 100 // 64)) == (2, 4)
    assert [chunks.count(r) for r in range(3)] == [3, 2, 1]
    assert chunks.tokens[4].tolist() == [*range(194, 230), *[293] * 28]


def test_a_chunk_state_is_the_accumulator_rounded_once_to_the_activations() -> None:
    x, initial = random_inputs((200, 65), recipe=SGLANG), random_states(2)
    rows = [(r, c) for r, chunks in ((0, 4), (1, 2)) for c in range(chunks)]
    accumulators = CHUNK_EMULATOR(x, initial, [tap(c, sequence=r) for r, c in rows], SGLANG).snapshots
    stored = CHUNK_EMULATOR(x, initial, [tap(c, SnapshotSource.CHUNK_STATE, r) for r, c in rows], SGLANG).snapshots
    assert torch.equal(stored, accumulators.bfloat16().float())
    assert not torch.equal(stored, accumulators)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_a_final_snapshot_is_the_final_state_whatever_chunk_it_names(kernel: StateKernel) -> None:
    x, initial = random_inputs((70, 5)), random_states(2)
    rows = [SnapshotRow(1, 99, 0, SnapshotSource.FINAL), SnapshotRow(0, 0, 0, SnapshotSource.FINAL)]
    found = kernel(x, initial, rows, EXACT)
    assert torch.equal(found.snapshots, found.final.flip(0))


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_no_snapshots_are_an_empty_stack_of_states(kernel: StateKernel) -> None:
    found = kernel(random_inputs((5,)), random_states(1), (), EXACT)
    assert tuple(found.snapshots.shape) == (0, 2, 48, 32)


@pytest.mark.parametrize("kernel", RECURRENT, ids=name_of)
def test_a_source_that_a_kernel_lacks_is_refused_with_its_choices(kernel: StateKernel) -> None:
    row = tap(0, SnapshotSource.CHUNK_STATE)
    with pytest.raises(ValueError, match=rf"{kernel.name} can't snapshot from chunk-state; it can from acc.*, final"):
        kernel(random_inputs((70,)), random_states(1), (row,), EXACT)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
@pytest.mark.parametrize("chunk", [-1, 2], ids=["negative", "past-the-end"])
def test_a_chunk_that_does_not_exist_is_refused(kernel: StateKernel, chunk: int) -> None:
    message = f"{kernel.name}: snapshot of chunk {chunk} of sequence 1, which has chunks 0 to 1"
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel(random_inputs((5, 128)), random_states(2), (tap(chunk, sequence=1),), EXACT)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_a_sequence_that_does_not_exist_is_refused(kernel: StateKernel) -> None:
    with pytest.raises(ValueError, match="snapshot of sequence 2; there are sequences 0 to 1"):
        kernel(random_inputs((5, 128)), random_states(2), (tap(0, sequence=2),), EXACT)


def test_a_recipe_that_a_kernel_lacks_is_refused_with_its_choices() -> None:
    one = replace(CHUNK_EMULATOR, name="theirs/chunk", recipes=frozenset({"sglang", "fla"}))
    one(random_inputs((5,)), random_states(1), (), SGLANG)
    with pytest.raises(ValueError, match=r"theirs/chunk doesn't run recipe 'exact'; it runs fla, sglang"):
        one(random_inputs((5,)), random_states(1), (), EXACT)


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_states_of_another_shape_are_refused(kernel: StateKernel) -> None:
    transposed = random_states(1).transpose(2, 3)
    with pytest.raises(ValueError, match=re.escape("[sequences, heads, V, K] = (1, 2, 48, 32) is needed")):
        kernel(random_inputs((5,)), transposed, (), EXACT)


@pytest.mark.parametrize("offsets", [(0, 4), (0, 5, 5), (0, 3, 2, 5)], ids=["too-short", "empty-sequence", "falling"])
def test_offsets_that_do_not_rise_to_the_token_count_are_refused(offsets: tuple[int, ...]) -> None:
    x = replace(random_inputs((5,)), offsets=offsets)
    with pytest.raises(ValueError, match=r"offsets .* must rise by ≥ 1 and end at 5 tokens"):
        CHUNK_EMULATOR(x, random_states(len(offsets) - 1), (), EXACT)
