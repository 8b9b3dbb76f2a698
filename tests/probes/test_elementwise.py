"""The error of elementary functions against recurrences whose logarithm drifts or walks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from replaycheck.probes.elementwise import elementwise
from replaycheck.probes.kernels import Regime, inputs
from replaycheck_kernels import hardware
from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.oracle import ORACLE_KERNEL, step
from replaycheck_kernels.recipe import FLA

HEADS, KEY = 2, 128


def slow(rate: float, bias: float) -> KdaInputs:
    return inputs(Regime("slow", torch.full((HEADS,), rate).log(), torch.full((HEADS, KEY), bias)), FLA, 0)


def drifted(x: KdaInputs, initial: Tensor, errors: Tensor) -> Tensor:
    """Final states in float64 with ``errors`` [N, H, K] in the softplus."""
    q, k = (y.double() / (y.double().square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (x.q, x.k))
    softplus = torch.nn.functional.softplus((x.a + x.dt_bias).double()) + errors
    g, beta, found = -x.A_log.double().exp()[:, None] * softplus, x.b.double().sigmoid(), []
    for r, (begin, end) in enumerate(zip(x.offsets, x.offsets[1:], strict=False)):
        S = initial[r].double()
        for t in range(begin, end):
            S, _ = step(S, q[t], k[t], x.v[t].double(), g[t], beta[t])
        found.append(S)
    return torch.stack(found)


@pytest.mark.parametrize(("rate", "bias"), [(1.0, -3.2), (8.0, -6.0), (1.0, -9.0)])
def test_errors_of_one_sign_are_within_the_bound_and_near_it(rate: float, bias: float) -> None:
    x = slow(rate, bias)
    initial = torch.randn(len(x.lengths()), HEADS, x.v.shape[2], KEY, generator=torch.Generator().manual_seed(1))
    truth = ORACLE_KERNEL(x, initial, (), FLA).final
    error = torch.full_like(x.a.double(), hardware.LN)
    off = float((drifted(x, initial, error) - truth).norm() / truth.norm())
    allowed = elementwise(x, FLA, on_gpu=True)
    assert 0.2 * allowed < off < allowed
    assert off > elementwise(x, FLA)  # without the drift it is too little: the fault of the first table on a GPU


def test_a_lower_bound_has_no_logarithm() -> None:
    x = slow(8.0, -6.0)
    assert elementwise(replace(x, lower_bound=-5.0), FLA, on_gpu=True) < 0.1 * elementwise(x, FLA, on_gpu=True)
