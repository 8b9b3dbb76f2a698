"""Emulated roundings against torch's casts and against integer arithmetic on bit patterns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck_kernels.precision import WORST_RMS, Precision, Rounding, container, round_to, spacing

TF32, BF16, FP16, HILO = Precision.TF32, Precision.BF16, Precision.FP16, Precision.HILO
NARROW = (TF32, BF16, FP16, HILO)


def values() -> Tensor:
    """Both signs, 60 binades, exact powers, zeros, infinity, and exact halves between neighbours of every format."""
    draws = torch.Generator().manual_seed(0)
    wide = torch.randn(20_000, generator=draws) * torch.exp2(torch.randint(-30, 30, (20_000,), generator=draws).float())
    ties = [(n + 0.5) * 2.0**-p for p in (7, 10) for n in range(2**p, 2**p + 64)]
    special = [0.0, -0.0, 1.0, -1.0, 65504.0, 65520.0, 2.0**-14, 2.0**-24, 2.0**-26, float("inf"), float("-inf")]
    return torch.cat([wide, torch.tensor(ties), -torch.tensor(ties), torch.tensor(special)])


def same_bits(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.view(torch.int32), y.view(torch.int32))


def tf32_by_integers(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round half to even on the 10-bit significand, with integers: quotient, remainder, and the parity of ties."""
    bits = x.view(np.uint32).astype(np.uint64)
    kept, dropped = np.divmod(bits, np.uint64(2**13))
    half = np.uint64(2**12)
    up = (dropped > half) | ((dropped == half) & (kept % 2 == 1))
    return ((kept + up) * np.uint64(2**13)).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("precision", "dtype"), [(BF16, torch.bfloat16), (FP16, torch.float16)], ids=["bf16", "fp16"])
def test_half_precisions_round_like_torch_casts(precision: Precision, dtype: torch.dtype) -> None:
    assert same_bits(round_to(values(), precision), values().to(dtype).float())


def test_tf32_rounds_to_nearest_with_ties_to_even() -> None:
    given = values().numpy()
    tied = (given.view(np.uint32) & 0x1FFF) == 0x1000
    assert tied.sum() >= 128, "the values hold no ties, so the claim would be untested"
    assert np.array_equal(round_to(values(), TF32).numpy().view(np.uint32), tf32_by_integers(given).view(np.uint32))


@pytest.mark.parametrize("precision", [TF32, BF16, FP16], ids=str)
def test_rounding_toward_zero_takes_the_neighbour_of_smaller_magnitude(precision: Precision) -> None:
    given = values()
    given = given[torch.isfinite(given)]
    cut, nearest = round_to(given, precision, Rounding.TOWARD_ZERO), round_to(given, precision)
    assert (cut.abs() <= given.abs()).all()
    assert same_bits(round_to(cut, precision), cut), "the result isn't a number of that precision"
    down = nearest.abs() <= given.abs()
    assert same_bits(cut[down], nearest[down])
    assert (cut[~down].abs() < nearest[~down].abs()).all()
    assert (~down).sum() > 1000


@pytest.mark.parametrize("rounding", list(Rounding), ids=str)
def test_a_high_and_a_low_bf16_keep_sixteen_bits(rounding: Rounding) -> None:
    given = values()
    given = given[torch.isfinite(given) & (given.abs() > 2.0**-20)]
    error = ((round_to(given, HILO, rounding).double() - given.double()) / given.double()).abs().max()
    # The high part leaves at most 2^-8 of x (2^-7 toward zero), of which the low part keeps 8 bits again.
    assert error <= (2.0**-17 if rounding is Rounding.NEAREST else 2.0**-14)
    assert error > 2.0**-20, "hi-lo must round"


@pytest.mark.parametrize("precision", NARROW, ids=str)
def test_rounding_twice_is_rounding_once(precision: Precision) -> None:
    once = round_to(values()[torch.isfinite(values())], precision)
    assert same_bits(round_to(once, precision), once)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP64], ids=str)
def test_the_container_precisions_leave_values_alone(precision: Precision) -> None:
    given = values().to(container(precision))
    assert round_to(given, precision) is given


@pytest.mark.parametrize("precision", [TF32, BF16, FP16], ids=str)
def test_the_stated_error_of_one_rounding_is_what_gaussians_show(precision: Precision) -> None:
    x = torch.randn(400_000, generator=torch.Generator().manual_seed(3))
    x = x[x.abs() > 2.0**-10]
    rms = float(((round_to(x, precision) - x) / x).double().square().mean().sqrt())
    # A Gaussian's significands aren't quite logarithmic: 2 % off the theory at most, and ten times the sampling error.
    assert rms == pytest.approx(WORST_RMS[precision] * math.sqrt(3 / (8 * math.log(2))), rel=0.02)
    near_one = 1 + torch.rand(400_000, generator=torch.Generator().manual_seed(4)) * 2.0**-4
    worst = float((round_to(near_one, precision) - near_one).double().square().mean().sqrt())
    assert worst == pytest.approx(WORST_RMS[precision], rel=0.02)


def test_the_stated_worst_error_of_a_high_and_a_low_bf16_is_not_exceeded() -> None:
    near_one = 1 + torch.rand(400_000, generator=torch.Generator().manual_seed(4)) * 2.0**-4
    rms = float((round_to(near_one, HILO) - near_one).double().square().mean().sqrt())
    assert 0.3 * WORST_RMS[HILO] < rms < WORST_RMS[HILO]


@pytest.mark.parametrize(("precision", "dtype"), [(Precision.FP64, np.float64), (Precision.FP32, np.float32)], ids=str)
def test_spacing_is_the_distance_to_the_next_number(precision: Precision, dtype: type[np.floating[Any]]) -> None:
    given = torch.tensor([1.0, 1.5, -2.0, 1e-3, 3e7, 0.0, 2.0**-126, 2.0**-130], dtype=torch.float64)
    expected = np.spacing(np.abs(given.numpy().astype(dtype))).astype(np.float64)
    assert np.array_equal(spacing(given, precision).numpy(), expected)


@pytest.mark.parametrize(("precision", "dtype"), [(BF16, torch.bfloat16), (FP16, torch.float16)], ids=["bf16", "fp16"])
def test_spacing_of_half_precisions_is_that_of_torch(precision: Precision, dtype: torch.dtype) -> None:
    given = torch.tensor([1.0, 1.5, 2.0, 1e-3, 0.0, 2.0**-14, 2.0**-20]).to(dtype)
    above = torch.nextafter(given, torch.full_like(given, float("inf")))
    assert torch.equal(spacing(given, precision), above.double() - given.double())
    assert torch.equal(spacing(-given, precision), spacing(given, precision))
