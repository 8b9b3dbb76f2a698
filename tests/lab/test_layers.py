"""Projections, norms and attention: right against torch in float64, and the same bits in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.subjects.lab.attention import KeyValueArena, page_table
from replaycheck.subjects.lab.layers import gated_rms_norm, gated_up, linear, rms_norm
from replaycheck_kernels.precision import Precision

FP32, BF16 = Precision.FP32, Precision.BF16
HEADS, KEY, VALUE = 2, 32, 24
SCALE = KEY**-0.5


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("size", [(96, 40), (256, 256)], ids=["96x40", "256x256"])
def test_a_projected_row_has_the_bits_that_it_has_alone(size: tuple[int, int]) -> None:
    x, weight = normal(130, size[0]), normal(size[1], size[0], seed=1)
    alone = torch.cat([linear(x[i : i + 1], weight, FP32) for i in range(130)])
    for rows in range(1, 131):
        assert torch.equal(linear(x[:rows], weight, FP32), alone[:rows]), f"{rows} rows"


def test_a_projection_is_the_product_with_one_rounding() -> None:
    x, weight = normal(70, 96), normal(40, 96, seed=1)
    exact = x.double() @ weight.double().T
    found = linear(x, weight, FP32)
    assert float((found - exact).norm() / exact.norm()) < 96**0.5 * 2.0**-24
    assert torch.equal(linear(x, weight, BF16), found.bfloat16().float())
    assert tuple(linear(x[:0], weight, FP32).shape) == (0, 40)


@pytest.mark.parametrize("name", ["rms", "gated", "mlp"])
def test_element_wise_layers_have_the_bits_that_they_have_alone(name: str) -> None:
    x, gate, weight = normal(67, HEADS, VALUE), normal(67, HEADS, VALUE, seed=1), normal(VALUE, seed=2)
    flat = x.flatten(1)
    up, down = normal(50, HEADS * VALUE, seed=3), normal(HEADS * VALUE, 50, seed=4)

    def layer(rows: slice) -> Tensor:
        if name == "rms":
            return rms_norm(x[rows], weight, 1e-5, BF16)
        if name == "gated":
            return gated_rms_norm(x[rows], gate[rows], weight, 1e-5, FP32)
        return linear(gated_up(flat[rows], up, up.flip(0), BF16), down, BF16)

    whole = layer(slice(None))
    assert torch.equal(torch.cat([layer(slice(i, i + 1)) for i in range(67)]), whole)
    assert torch.equal(layer(slice(0, 5)), whole[:5])


def test_norms_are_those_of_torch_in_float64() -> None:
    x, gate, weight = (t.double() for t in (normal(9, VALUE), normal(9, VALUE, seed=1), normal(VALUE, seed=2)))
    expected = torch.nn.functional.rms_norm(x, (VALUE,), weight, 1e-5)
    double = Precision.FP64
    # A sum of 24 squares in another order, a root and two products: at most 30 roundings of 1.1e-16.
    torch.testing.assert_close(rms_norm(x, weight, 1e-5, double), expected, rtol=1e-14, atol=1e-15)
    gated = gated_rms_norm(x, gate, weight, 1e-5, double)
    torch.testing.assert_close(gated, expected * gate.sigmoid(), rtol=1e-14, atol=1e-15)


class Sequences:
    """Sequences of an arena of one layer, filled with random keys and values."""

    def __init__(self, lengths: tuple[int, ...], dtype: torch.dtype) -> None:
        self.arena = KeyValueArena([2], HEADS, KEY, VALUE, dtype)
        self.pages, self.keys, self.values = [], [], []
        for r, length in enumerate(lengths):
            self.pages.append(self.arena.take(length))
            self.keys.append(normal(length, HEADS, KEY, seed=10 + r, dtype=dtype))
            self.values.append(normal(length, HEADS, VALUE, seed=20 + r, dtype=dtype))
            self.arena.write(2, int(self.pages[-1][0]), self.keys[-1], self.values[-1])


def attend(held: Sequences, q: Tensor, pages: list[Any], lengths: tuple[int, ...]) -> Tensor:
    return held.arena.attend(2, q, page_table(pages, lengths, torch.device("cpu")), SCALE)


def sdpa(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """torch's attention of the last q.shape[0] tokens of a sequence, in float64: [n, H, V]."""
    new, total = q.shape[0], keys.shape[0]
    visible = torch.arange(total) <= torch.arange(total - new, total)[:, None]
    parts = (t.double().transpose(0, 1) for t in (q, keys, values))
    return torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=visible, scale=SCALE).transpose(0, 1)


@pytest.mark.parametrize(
    ("dtype", "unit"), [(torch.float64, 2.0**-53), (torch.float32, 2.0**-24)], ids=["fp64", "fp32"]
)
def test_attention_is_that_of_torch_in_float64(dtype: torch.dtype, unit: float) -> None:
    held, lengths = Sequences((1, 70, 33), dtype), (1, 5, 33)
    q = normal(sum(lengths), HEADS, KEY, dtype=dtype)
    found = attend(held, q, held.pages, lengths).split(lengths)
    for r, queries in enumerate(q.split(lengths)):
        expected = sdpa(queries, held.keys[r], held.values[r])
        # dot products of 32 and sums of 70 terms; an error of a score is one of its exponential, at scores near 3.
        assert float((found[r] - expected).abs().max()) < 100 * unit * float(held.values[r].abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
def test_a_query_has_the_bits_that_it_has_alone(dtype: torch.dtype) -> None:
    held, lengths = Sequences((40, 70), dtype), (40, 6)
    q = normal(46, HEADS, KEY, dtype=dtype)
    packed = attend(held, q, held.pages, lengths)
    for i in range(40):
        alone = attend(held, q[i : i + 1], [held.pages[0][: i + 1]], (1,))
        assert torch.equal(alone[0], packed[i])
    assert torch.equal(attend(held, q[40:], held.pages[1:], (6,)), packed[40:])


def test_pages_of_a_fork_may_lie_anywhere() -> None:
    held = Sequences((20, 30), torch.float32)
    q = normal(1, HEADS, KEY)
    joined = np.concatenate([held.pages[0][:12], held.pages[1][25:]])
    found = attend(held, q, [joined], (1,))
    keys, values = (torch.cat([parts[0][:12], parts[1][25:]]) for parts in (held.keys, held.values))
    assert float((found - sdpa(q, keys, values)).abs().max()) < 100 * 2.0**-24 * float(values.abs().max())


def test_a_growing_arena_keeps_what_was_written() -> None:
    held = Sequences((30,), torch.float32)
    q = normal(1, HEADS, KEY)
    before = attend(held, q, held.pages, (1,))
    held.arena.take(10_000)
    assert torch.equal(attend(held, q, held.pages, (1,)), before)
    assert held.arena.take(2).tolist() == [10_030, 10_031]


def test_keys_that_the_compiled_loop_cannot_take_are_refused() -> None:
    with pytest.raises(UsageError, match=r"attention keys of 24 elements; the lab takes multiples of 16"):
        KeyValueArena([0], HEADS, 24, VALUE, torch.float32)
