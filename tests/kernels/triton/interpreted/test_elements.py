"""Parts of the kernels that the interpreter's runs of whole kernels leave out, or that have hard edges."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from replaycheck_kernels.activation import softplus as wanted_softplus
from replaycheck_kernels.precision import Precision, Rounding, round_to
from replaycheck_kernels.triton.elements import fine, outer_sum, parts, softplus, tf32


@triton.jit
def multiply(x, y, out, N: tl.constexpr, M: tl.constexpr):
    row, inner = tl.arange(0, N), tl.arange(0, M)
    left = tl.load(x + row[:, None] * M + inner[None, :])
    right = tl.load(y + inner[:, None] * N + row[None, :])
    tl.store(out + row[:, None] * N + row[None, :], outer_sum(left, right))


@triton.jit
def apply(x, out, TF32: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(out + at, tf32(value) if TF32 else softplus(value))


def test_the_fp32_product_on_a_gpu() -> None:
    x, y = torch.randn(16, 32), torch.randn(32, 16)
    out = torch.full((16, 16), torch.nan)
    multiply[(1,)](x, y, out, 16, 32)
    assert (out.double() - x.double() @ y.double()).abs().max() < 32 * 2.0**-24 * 8


@pytest.mark.parametrize("scale", [1.0, 30.0, 80.0])
def test_softplus(scale: float) -> None:
    """Relative to float64: 3 roundings, two of them of the argument's size; fp32 log(1 + e^y) would be off by 1."""
    x = torch.linspace(-1, 1, 1024) * scale
    out = torch.empty_like(x)
    apply[(1,)](x, out, False, 1024)
    truth = wanted_softplus(x.double())
    assert ((out.double() - truth).abs() / truth).max() < (4 + scale) * 2.0**-24


def test_tf32_is_cut_as_the_recipe_says() -> None:
    x = torch.randn(1024)
    out = torch.empty_like(x)
    apply[(1,)](x, out, True, 1024)
    assert torch.equal(out, round_to(x, Precision.TF32, Rounding.TOWARD_ZERO))


@triton.jit
def split_product(x, y, total, out, N: tl.constexpr, M: tl.constexpr):
    row, inner = tl.arange(0, N), tl.arange(0, M)
    x_high, x_middle, x_low = parts(tl.load(x + row[:, None] * M + inner[None, :]), True)
    y_high, y_middle, y_low = parts(tl.load(y + row[:, None] * M + inner[None, :]), True)
    at = row[:, None] * N + row[None, :]
    tl.store(out + at, fine(x_high, x_middle, x_low, y_high, y_middle, y_low, tl.load(total + at), True))


def test_products_of_parts_are_fp32_products() -> None:
    """Of 2^-24 a term: three roundings' worth for what is left out, and the sums of 32 terms."""
    x, y, total = torch.randn(16, 32), torch.randn(16, 32).exp(), torch.randn(16, 16)
    out = torch.full((16, 16), torch.nan)
    split_product[(1,)](x, y, total, out, 16, 32)
    terms = total.abs().double() + x.abs().double() @ y.abs().double().T
    assert ((out.double() - total.double() - x.double() @ y.double().T).abs() / terms).max() < 8 * 2.0**-24
