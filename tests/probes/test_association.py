"""Casts of an accumulator that fp32 association separates from the one that is seen, and what isn't one."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import Tensor

from replaycheck.probes.association import Flips, flips
from replaycheck_kernels.error_model import predict
from replaycheck_kernels.recipe import EXACT

DTYPES = (torch.bfloat16, torch.float16)
STATE = torch.randn(2, 2, 48, 128, generator=torch.Generator().manual_seed(0)) * 0.2
"""One row in four is a thousandth of the others, one element in eight of each row a millionth of it."""
STATE[:, :, ::4] *= 1e-3
STATE[..., ::8] *= 1e-6


ORDERS = range(1, 5)
"""Seeds of errors. Seed 0 is that of ``STATE``, and errors in proportion to the elements are no association's."""


def errors(order: int) -> Tensor:
    return torch.randn(STATE.shape, generator=torch.Generator().manual_seed(order))


def other(order: int) -> Tensor:
    """The same accumulator summed in another order: an error that goes with the row, not with the element."""
    return STATE + 3e-7 * STATE.square().mean(-1, keepdim=True).sqrt() * errors(order)


def bad(may: Flips, stored: Tensor) -> int:
    return int(may.beyond(stored, STATE).sum())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS)
def test_a_cast_of_another_order_of_sums_is_a_cast_of_an_accumulator(dtype: torch.dtype, order: int) -> None:
    stored, may = other(order).to(dtype), flips(STATE, STATE, dtype)
    off = stored != STATE.to(dtype)
    assert 0 < int(off.sum()) <= may.allowed
    assert bad(may, stored) == 0
    size = float((stored.double() - STATE.to(dtype).double()).norm() / STATE.double().norm())
    assert 0 < size <= may.relative


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS)
def test_where_many_elements_flip_their_mean_is_most_of_the_relative_difference(dtype: torch.dtype, order: int) -> None:
    """A state that decayed to a hundredth has its past's association errors: 16 % (bf16) and 27 % (fp16) of the casts flip.

    So many have a sharp mean: 0.85 to 0.98 of what is allowed is found.
    """
    past = 100 * STATE
    row = past.square().mean(-1, keepdim=True).sqrt()
    apart = sqrt(2) * predict(EXACT, "recurrent", STATE.shape[-1], 0.0).state * row
    stored, may = (STATE + apart * errors(order)).to(dtype), flips(STATE, past, dtype)
    off = int((stored != STATE.to(dtype)).sum())
    assert 1000 < off <= may.allowed
    size = float((stored.double() - STATE.to(dtype).double()).norm() / STATE.double().norm())
    assert 0.7 * may.relative <= size <= may.relative


def test_a_small_element_of_a_large_row_may_be_many_units_away() -> None:
    """By 2 to 7 ulp on an H200, where a count of units called it broken."""
    stored, may = other(ORDERS[0]).bfloat16(), flips(STATE, STATE, torch.bfloat16)
    unit = 2.0 ** (STATE.abs().log2().floor() - 7)
    assert float(((stored.float() - STATE.bfloat16().float()).abs() / unit).max()) >= 2
    assert bad(may, stored) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cut_and_a_second_rounding_are_no_casts(dtype: torch.dtype) -> None:
    may, nearest = flips(STATE, STATE, dtype), STATE.to(dtype)
    beyond = nearest.float().abs() > STATE.abs()
    cut = torch.where(beyond, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)
    assert bad(may, cut) > 0.3 * STATE.numel()
    if dtype is torch.float16:
        assert bad(may, STATE.bfloat16().half()) > 0.5 * STATE.numel()


def test_one_element_that_is_a_unit_off_is_found_and_infinity_is_a_cast() -> None:
    state = STATE.clone()
    state[0, 0, 1, 1] = 1e6
    may, stored = flips(state, STATE, torch.float16), state.half()
    assert int(may.beyond(stored, state).sum()) == 0
    stored[0, 0, 1, 1] = 65504
    assert int(may.beyond(stored, state).sum()) == 1
    stored = STATE.half()
    stored[1, 1, 2, 3] = torch.nextafter(stored[1, 1, 2, 3], torch.tensor(9.0, dtype=torch.float16))
    middle = STATE.clone()
    middle[1, 1, 2, 3] = STATE.half()[1, 1, 2, 3].float()
    assert int(flips(middle, STATE, torch.float16).beyond(stored, middle).sum()) == 1
