"""Element-wise functions: the softplus's cut, and the same bits in any company."""

from __future__ import annotations

import pytest
import torch

from replaycheck_kernels.activation import SOFTPLUS_CUT, padded, softplus


def test_softplus_is_the_identity_above_its_cut_without_a_step() -> None:
    at = torch.tensor([-60.0, 0.0, SOFTPLUS_CUT, SOFTPLUS_CUT * (1 + 2.0**-23), 500.0])
    expected = at.double().exp().log1p().float()
    torch.testing.assert_close(softplus(at), expected, rtol=2.0**-22, atol=0)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65])
def test_padded_functions_give_an_element_the_same_bits_in_any_company(size: int) -> None:
    x = torch.randn(65, generator=torch.Generator().manual_seed(0))
    for function in (torch.sigmoid, torch.exp2, torch.nn.functional.silu):
        whole = padded(function, x)
        assert torch.equal(padded(function, x[:size]), whole[:size])
        assert torch.equal(padded(function, x[65 - size :]), whole[65 - size :])
