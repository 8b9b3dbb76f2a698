"""Inputs that no text brings about, for faults that ordinary ones hide: keys of zeros, tiny keys, nearly parallel keys.

Each is a call of one kernel under ``exact`` against the float64 oracle; the predicted error is that of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from replaycheck.probes.kernels import Regime
from replaycheck_kernels.contract import KdaInputs, StateKernel
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.recipe import EXACT, Recipe

__all__ = ["EXTREMES", "Outcome", "look"]

TOKENS, HEADS, KEY, VALUE = 70, 2, 32, 24
PARALLEL = 0.99
"""Cosine of any two keys of a chunk: products of the triangle's powers then grow to 64 choose 32 before they cancel."""
SLACK = 8.0
"""Parallel keys make the triangle's inverse ill-conditioned: fp32's own error was 0.2 to 2.4 times the prediction, over 20
seeds and both forms; a series in fp16 isn't finite."""


@dataclass(frozen=True)
class Outcome:
    """``ratio``: error against float64 over what the recipe predicts; infinite where the result isn't finite."""

    name: str
    ratio: float
    bound: float

    @property
    def failed(self) -> bool:
        return not self.ratio <= self.bound


def _zero_keys(x: KdaInputs) -> KdaInputs:
    k = x.k.clone()
    k[3] = 0.0
    return replace(x, k=k)


def _small_keys(x: KdaInputs) -> KdaInputs:
    """Σk² of a token about 1e-6, as much as the epsilon beside it."""
    return replace(x, k=x.k * (1e-6 / KEY) ** 0.5)


def _parallel_keys(x: KdaInputs) -> KdaInputs:
    common = torch.nn.functional.normalize(x.k[:1], dim=-1)
    own = torch.nn.functional.normalize(x.k, dim=-1)
    return replace(x, k=common * PARALLEL**0.5 + own * (1 - PARALLEL) ** 0.5, b=torch.full_like(x.b, 3.0))


EXTREMES: dict[str, tuple[Callable[[KdaInputs], KdaInputs], float]] = {
    "zero-keys": (_zero_keys, 1.0),
    "small-keys": (_small_keys, 1.0),
    "parallel-keys": (_parallel_keys, SLACK),
}


def look(name: str, kernel: StateKernel, seed: int, run_as: Recipe = EXACT) -> Outcome:
    """One kernel on one of the inputs. ``run_as``: the recipe that really runs, where a fault makes it another."""
    change, bound = EXTREMES[name]
    x, initial = change(_inputs(seed)), torch.zeros(1, HEADS, VALUE, KEY)
    truth, found = ORACLE_KERNEL(x, initial, (), EXACT), kernel.forward(x, initial, (), run_as)
    predicted = predict_for(x, EXACT, kernel.form)
    pairs = ((found.o, truth.o, predicted.output), (found.final, truth.final, predicted.state))
    ratios = [float((a.double() - b).norm() / b.norm()) / allowed for a, b, allowed in pairs]
    return Outcome(name, max(r if r == r else float("inf") for r in ratios), bound)


def _inputs(seed: int) -> KdaInputs:
    """Random tokens at mild decay."""
    draws = torch.Generator().manual_seed(seed)
    mild = Regime("mild", torch.zeros(HEADS), torch.full((HEADS, KEY), -3.2))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws)

    return KdaInputs(
        q=normal(TOKENS, HEADS, KEY),
        k=normal(TOKENS, HEADS, KEY),
        v=normal(TOKENS, HEADS, VALUE),
        a=normal(TOKENS, HEADS, KEY) * 0.5,
        b=normal(TOKENS, HEADS),
        A_log=mild.A_log,
        dt_bias=mild.dt_bias,
        offsets=(0, TOKENS),
    )
