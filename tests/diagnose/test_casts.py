"""Which cast leads from a live state to the stored one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from replaycheck.diagnose.casts import explained_by
from replaycheck.schema.arm import PoolDtype

DTYPE = {PoolDtype.FP32: torch.float32, PoolDtype.BF16: torch.bfloat16, PoolDtype.FP16: torch.float16}


@pytest.fixture
def live() -> Tensor:
    return torch.randn(2, 2, 24, 16, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("pool", PoolDtype)
def test_the_one_cast_needs_no_explanation(live: Tensor, pool: PoolDtype) -> None:
    assert explained_by(live, live.to(DTYPE[pool]).float(), pool) is None


@pytest.mark.parametrize(
    ("pool", "stored", "code"),
    [
        (PoolDtype.FP32, lambda x: x.bfloat16().float(), "RC101"),
        (PoolDtype.FP16, lambda x: x.bfloat16().half().float(), "RC101"),
        (PoolDtype.BF16, lambda x: x.half().bfloat16().float(), "RC103"),
        (PoolDtype.BF16, lambda x: (x.view(torch.int32) & ~0xFFFF).view(torch.float32), "RC104"),
        (PoolDtype.FP16, lambda x: torch.where(x.abs() > 2, torch.inf, x).half().float(), "RC106"),
    ],
)
def test_another_cast_is_named(live: Tensor, pool: PoolDtype, stored: object, code: str) -> None:
    assert callable(stored)
    found = explained_by(live, stored(live), pool)
    assert found is not None
    assert found[0] == code


def test_a_quantised_state_is_named_and_an_honest_one_isnt(live: Tensor) -> None:
    step = live.abs().amax(-1, keepdim=True) / 127
    found = explained_by(live, (live / step).round() * step, PoolDtype.FP32)
    assert found == ("RC105", "quantising")
    assert explained_by(live, live * 1.01, PoolDtype.FP32) is None


def test_infinities_below_the_largest_right_value_are_no_overflow(live: Tensor) -> None:
    stored = live.half().float()
    stored[0, 0, 0, 0] = torch.inf
    assert explained_by(live, stored, PoolDtype.FP16) is None
