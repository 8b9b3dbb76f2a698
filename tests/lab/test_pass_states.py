"""States that are read and written where they lie have the bits of gathered ones, and memory of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from replaycheck.subjects.lab.pass_states import CallRows, PassStates
from replaycheck_kernels.compiled import RECURRENT_CPU, straight, turned
from replaycheck_kernels.contract import KdaInputs, KdaOutput, StateKernel
from replaycheck_kernels.recipe import SGLANG
from tests.kernels.cases import random_inputs

LAYERS, LENGTHS = 3, (1, 3, 1)
SNAPSHOTS = (((0, "accumulator"), (0, "final")), (), ((0, "accumulator"),))
ROWS = CallRows(0, len(LENGTHS), "recurrent", None, (), SNAPSHOTS)


def gathered(kernel: StateKernel) -> StateKernel:
    """The same kernel behind a function that takes no addresses."""
    return replace(kernel, forward=lambda *call: kernel.forward(*call))


def drawn(dtype: torch.dtype = torch.float32) -> tuple[list[KdaInputs], list[Tensor]]:
    layers = [random_inputs(LENGTHS, recipe=SGLANG, seed=layer) for layer in range(LAYERS)]
    shape = (LAYERS, layers[0].v.shape[1], layers[0].v.shape[2], layers[0].k.shape[2])
    generator = torch.Generator().manual_seed(7)
    return layers, [torch.randn(shape, generator=generator).to(dtype) for _ in LENGTHS]


def run(
    kernel: StateKernel, layers: Sequence[KdaInputs], before: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    states = PassStates(before, [ROWS], {"recurrent": kernel}, torch.float32)
    outputs = [states.run(index, inputs, SGLANG) for index, inputs in enumerate(layers)]
    return outputs, states.finals(), states.snapshots()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", [turned, straight], ids=["turned", "straight"])
def test_states_in_place_have_the_bits_of_gathered_ones(dtype: torch.dtype, layout: Callable[[Tensor], Tensor]) -> None:
    layers, before = drawn(dtype)
    before = [layout(state.float()).to(dtype) for state in before]
    found, expected = run(RECURRENT_CPU, layers, before), run(gathered(RECURRENT_CPU), layers, before)
    for some, others in zip(found, expected, strict=True):
        assert len(some) == len(others)
        assert all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


def test_what_a_row_continues_from_keeps_its_bytes_and_shares_no_memory_with_what_it_makes() -> None:
    layers, before = drawn()
    before = [turned(state) for state in before]
    kept = [state.clone() for state in before]
    _, finals, snapshots = run(RECURRENT_CPU, layers, before)
    assert all(torch.equal(a, b) for a, b in zip(before, kept, strict=True))
    places = [state.untyped_storage().data_ptr() for state in (*before, *finals, *snapshots)]
    # The snapshot of row 0's final state is that state.
    assert len(set(places)) == len(places) - 1
    assert snapshots[1] is finals[0]


def test_a_snapshot_before_the_first_token_is_the_state_before_it() -> None:
    layers, before = drawn()
    _, _, snapshots = run(RECURRENT_CPU, layers, before)
    assert torch.equal(snapshots[0], before[0])
    assert torch.equal(snapshots[2], before[2])


def test_a_wrapped_kernel_is_called_and_not_passed_over() -> None:
    """A fault that replaces a kernel's call must be met, whatever the kernel can do besides."""

    def spoilt(*call: Any) -> KdaOutput:
        output = RECURRENT_CPU.forward(*call)
        return replace(output, o=output.o + 1)

    layers, before = drawn()
    right, wrong = run(RECURRENT_CPU, layers, before), run(replace(RECURRENT_CPU, forward=spoilt), layers, before)
    assert all(torch.equal(a + 1, b) for a, b in zip(right[0], wrong[0], strict=True))


@pytest.mark.parametrize("shape", [(2, 3, 8, 16), (1, 1, 5, 3), (4, 1, 7), (1, 8)], ids=str)
def test_turned_and_straight_change_the_layout_and_no_value(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    there = turned(x)
    assert torch.equal(there, x)
    assert there.transpose(-1, -2).is_contiguous()
    assert turned(there) is there
    back = straight(there)
    assert torch.equal(back, x)
    assert back.is_contiguous()
