"""Other fp32 evaluations of the emulator: near it, never the same, and of the size that fp32 gives."""

from __future__ import annotations

import pytest
import torch

from replaycheck_kernels.hardware import EXP, LN
from replaycheck_kernels.reordered import WAYS, evaluated


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_others_of_the_same_value(way: str) -> None:
    draws = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 64, 128, generator=draws), torch.randn(2, 128, 64, generator=draws)
    plain = {"bmm": torch.bmm(a, b), "sum": a.sum(-1), "cumsum": a.cumsum(1)}
    with evaluated(way):
        other = {"bmm": torch.bmm(a, b), "sum": a.sum(-1), "cumsum": a.cumsum(1)}
    for name, value in other.items():
        same = name == "cumsum" and way == "exact-sums"  # torch on the CPU accumulates it in float64 anyway
        assert value.dtype == torch.float32 and torch.equal(value, plain[name]) is same, name
        # Each of 128 additions rounds by half a unit of the partial sum, which stays under 64.
        assert torch.allclose(value, plain[name], rtol=0, atol=128 * 2.0**-24 * 64), name


def test_exact_sums_round_once() -> None:
    x = torch.tensor([[1.0, 2.0**-24, 2.0**-24, 2.0**-24]])
    assert x.sum(-1).item() == 1.0  # each term alone is half a unit of the sum, which rounds to even
    with evaluated("exact-sums"):
        assert x.sum(-1).item() == x.cumsum(-1)[0, -1].item() == 1 + 2.0**-22


def test_fast_functions_are_within_their_documented_error() -> None:
    x = torch.linspace(-20, 20, 4001)
    with evaluated("hardware"):
        found = torch.exp2(x)
    off = ((found.double() - torch.exp2(x.double())) / torch.exp2(x.double())).abs().max()
    assert 2.0**-24 < off < EXP + 2.0**-22  # torch's own error and a product's rounding come on top


def test_results_below_the_smallest_normal_number_are_zero() -> None:
    x = torch.tensor([-125.0, -127.0, -140.0])
    assert (torch.exp2(x) > 0).all()
    with evaluated("hardware"):
        assert (torch.exp2(x) > 0).tolist() == [True, False, False]


def test_the_logarithm_drifts_as_far_as_it_may() -> None:
    """A sum over n like arguments is n errors off, not √n."""
    x = torch.full((64,), 0.04) + torch.linspace(0, 1e-3, 64)
    with evaluated("hardware"):
        found = torch.log1p(x)
    off = found.double() - torch.log1p(x.double())
    assert (off.abs() <= LN + 2.0**-24 + 2.0**-27).all()  # and the rounding of 1 + x, and its own
    assert off.mean() > 0.5 * LN


def test_outside_the_block_nothing_is_changed() -> None:
    x = torch.rand(100)
    before = torch.exp(x)
    with evaluated("hardware"):
        assert not torch.equal(torch.exp(x), before)
    assert torch.equal(torch.exp(x), before)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of exact-sums, hardware"):
        evaluated("backward")
