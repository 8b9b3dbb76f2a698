"""The bound with a GPU's functions, against a rebuild whose functions err by as much as is documented, all one way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import e, log2

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.hardware import EXP
from replaycheck_kernels.recipe import EXACT
from replaycheck_kernels.speculation.bound import UNIT, association_bound
from replaycheck_kernels.speculation.commit import Decays, magnitude
from replaycheck_kernels.speculation.function_bound import exact, gpu_bound
from replaycheck_kernels.speculation.verify import Records
from tests.kernels.cases import BOUNDED, GROUPED_GDN, KDA, REGIMES, Layer
from tests.kernels.speculation.test_recover import WIDTH, verified


@dataclass(frozen=True)
class Gpu:
    """fp32 functions that err by ``sign`` times what is documented; ``times``: ex2.approx by so much more.

    The exponentials of the decay itself and those inside of g may err in two ways, as errors of one sign add up.
    """

    inner: int
    outer: int
    quotient: int
    times: float = 1.0

    def exp(self, x: Tensor, sign: int) -> Tensor:
        argument = (x * log2(e)).double()
        return (argument.exp2() * (1 + sign * self.times * EXP)).float()

    def divided(self, x: Tensor, y: Tensor) -> Tensor:
        return ((x / y).double() * (1 + self.quotient * 3 * UNIT)).float()

    def decay(self, records: Records, decays: Decays) -> Tensor:
        rate = self.exp(decays.A_log, self.inner)[:, None, None]
        y = records.decay.float() + decays.dt_bias[:, None]
        if decays.lower_bound is None:
            z = self.exp(y.clamp(max=20), self.inner)
            u = 1 + z
            softplus = torch.where(u == 1, z, u.log() * self.divided(z, torch.where(u == 1, 1.0, u - 1)))
            return self.exp(-rate * torch.where(y > 20, y, softplus), self.outer)
        sigmoid = self.divided(torch.ones(()), 1 + self.exp(-rate * y, -self.inner))
        return self.exp(decays.lower_bound * sigmoid, self.outer)

    def key(self, key: Tensor) -> Tensor:
        root = (key.float().square().sum(-1, keepdim=True) + 1e-6).double().rsqrt()
        return key.float() * (root * (1 + self.quotient * 3 * UNIT)).float()


def rebuilt(gpu: Gpu, initial: Tensor, records: Records, lengths: Tensor, decays: Decays) -> Tensor:
    """From the last token to the first in fp32, as the kernel does."""
    factors = gpu.decay(records, decays)
    heads = factors.shape[1] // records.key.shape[1]
    keys = gpu.key(records.key).repeat_interleave(heads, 1)
    total, carried = torch.zeros_like(initial), torch.ones_like(keys[:, :, 0])
    for t in reversed(range(WIDTH)):
        live = (lengths > t)[:, None, None]
        update = records.correction[:, :, t, :, None] * (keys[:, :, t] * carried)[:, :, None, :]
        total = torch.where(live[..., None], total + update, total)
        carried = torch.where(live, carried * factors[:, :, t], carried)
    return initial * carried[:, :, None, :] + total


def shares(layer: Layer, regime: str, times: float = 1.0) -> tuple[float, float]:
    """Largest error over the bound, and over the bound of association alone, over every way to err."""
    window, initial, done, decays = verified(layer, EXACT, regime)
    n, records = window.lengths, done.records
    truth = exact(initial, records, n, decays, EXACT)
    allowed = gpu_bound(initial, records, n, decays, EXACT)
    plain = association_bound(n, magnitude(initial, records, n, decays, EXACT))
    worst, beyond = 0.0, 0.0
    for signs in product((-1, 1), repeat=3):
        off = (rebuilt(Gpu(*signs, times), initial, records, n, decays).double() - truth).abs()
        worst, beyond = max(worst, float((off / allowed).max())), max(beyond, float((off / plain).max()))
    return worst, beyond


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("layer", [KDA, BOUNDED, GROUPED_GDN], ids=lambda layer: layer.name)
def test_functions_that_err_as_documented_stay_within_the_bound(layer: Layer, regime: str) -> None:
    worst, beyond = shares(layer, regime)
    assert 0.2 < worst <= 1, "and the bound isn't far above"
    assert beyond > 1, "association alone doesn't cover them"


@pytest.mark.parametrize("layer", [KDA, BOUNDED, GROUPED_GDN], ids=lambda layer: layer.name)
def test_an_exponential_that_errs_more_leaves_the_bound(layer: Layer) -> None:
    assert shares(layer, "kimi", times=4.0)[0] > 1


def test_nothing_kept_means_no_difference() -> None:
    window, initial, done, decays = verified(KDA, EXACT)
    nothing = torch.zeros_like(window.lengths)
    assert not gpu_bound(initial, done.records, nothing, decays, EXACT).any()
