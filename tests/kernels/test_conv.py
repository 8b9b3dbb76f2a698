"""The short convolution against torch's, and its state against the inputs themselves."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
import torch
from torch import Tensor

from replaycheck_kernels import conv
from replaycheck_kernels.conv import conv_windows, short_convolution
from replaycheck_kernels.precision import Precision, round_to

CHANNELS, WIDTH = 6, 4
FP32 = Precision.FP32


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def torch_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """conv1d over the whole sequence [n, D] that begins with the state; then SiLU, in float64."""
    out = torch.nn.functional.conv1d(x.double().T[None], weight.double()[:, None], groups=weight.shape[0])
    return torch.nn.functional.silu(out[0].T)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("lengths", [(1,), (2, 1), (3, 4, 5), (70,)], ids=str)
def test_convolution_is_torch_conv1d_of_state_and_inputs(lengths: tuple[int, ...], width: int) -> None:
    x, weight = normal(sum(lengths), CHANNELS), normal(CHANNELS, width, seed=1)
    state, offsets = normal(len(lengths), width - 1, CHANNELS, seed=2), (0, *accumulate(lengths))
    found = short_convolution(x, weight, state, offsets, FP32)
    for r, (begin, end) in enumerate(pairwise(offsets)):
        line = torch.cat([state[r], x[begin:end]])
        expected = torch_convolution(line, weight)
        # width products and sums, and a SiLU, in fp32: one rounding each, relative to the sum of magnitudes.
        size = torch_convolution(line.abs(), weight.abs()).max()
        assert float((found[begin:end] - expected).abs().max()) <= 2 * width * 2.0**-24 * float(size)


@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1), (2, 70, 3), (5, 1)])
def test_the_compiled_sums_have_the_bits_of_the_torch_form(lengths: tuple[int, ...]) -> None:
    """Also on views with a stride, as a layer's slice of the batch's states is one."""
    offsets = (0, *accumulate(lengths))
    x, weight = normal(offsets[-1], 2 * CHANNELS)[:, :CHANNELS], normal(CHANNELS, WIDTH, seed=1)
    state = normal(len(lengths), 2, WIDTH - 1, CHANNELS, seed=2)[:, 1]
    arguments = (x, weight, state, offsets)
    assert torch.equal(conv.weighted_sums(*arguments), conv._weighted_sums(*arguments))


def test_the_output_is_rounded_once_to_the_precision_asked_for() -> None:
    x, weight, state = normal(9, CHANNELS), normal(CHANNELS, WIDTH, seed=1), normal(1, WIDTH - 1, CHANNELS, seed=2)
    full = short_convolution(x, weight, state, (0, 9), FP32)
    rounded = short_convolution(x, weight, state, (0, 9), Precision.BF16)
    assert torch.equal(rounded, round_to(full, Precision.BF16))
    assert not torch.equal(rounded, full)


@pytest.mark.parametrize("cut", range(5))
def test_a_window_is_the_last_three_inputs_byte_for_byte(cut: int) -> None:
    """In a pack, from zero tokens on, over the state's end; other sequences and later tokens don't show."""
    x, before = normal(14, CHANNELS), normal(2, WIDTH - 1, CHANNELS, seed=3)
    found = conv_windows(x, before, (0, 4, 14), [(1, cut), (0, 2), (1, 10)])
    line = torch.cat([before[1], x[4 : 4 + cut]])
    assert torch.equal(found[0].contiguous().view(torch.uint8), line[-3:].contiguous().view(torch.uint8))
    assert torch.equal(found[1], torch.cat([before[0, 2:], x[:2]]))
    assert torch.equal(found[2], x[11:])


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_cut_changes_no_bit(cut: int) -> None:
    x, weight, state = normal(10, CHANNELS), normal(CHANNELS, WIDTH, seed=1), normal(1, WIDTH - 1, CHANNELS, seed=2)
    whole = short_convolution(x, weight, state, (0, 10), FP32)
    head = short_convolution(x[:cut], weight, state, (0, cut), FP32)
    after = conv_windows(x, state, (0, 10), [(0, cut)])
    tail = short_convolution(x[cut:], weight, after, (0, 10 - cut), FP32)
    assert torch.equal(torch.cat([head, tail]), whole)


def test_a_sequence_in_a_pack_reads_neither_its_neighbours_nor_their_states() -> None:
    lengths, offsets = (2, 1, 5), (0, 2, 3, 8)
    x, weight, state = normal(8, CHANNELS), normal(CHANNELS, WIDTH, seed=1), normal(3, WIDTH - 1, CHANNELS, seed=2)
    packed = short_convolution(x, weight, state, offsets, FP32)
    for r, (begin, end) in enumerate(pairwise(offsets)):
        alone = short_convolution(x[begin:end], weight, state[r][None], (0, lengths[r]), FP32)
        assert torch.equal(packed[begin:end], alone)
