"""Kernels against the float64 oracle: is the error within what the recipe predicts?

Inputs have K ≠ V, several sequences with lengths round the chunk, and decays from mild to strong; with a model, its own
learnt A_log and dt_bias, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import hypot

import torch
from torch import Tensor

from replaycheck.schema.result import ProbeResult
from replaycheck_kernels.contract import KdaInputs, StateKernel
from replaycheck_kernels.error_model import Predicted, decay_span, predict
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import round_to
from replaycheck_kernels.recipe import Recipe

from .elementwise import elementwise

LENGTHS = (130, 1, 63, 64, 65)
HEADS, KEY, VALUE = 2, 128, 96


@dataclass(frozen=True)
class Regime:
    """Decay parameters: A_log [H], dt_bias [H, K]. ``recorded``: the tokens are a model's, too, not random ones."""

    name: str
    A_log: Tensor
    dt_bias: Tensor
    recorded: bool = False


def regimes(seed: int, learnt: Sequence[tuple[Tensor, Tensor]] = ()) -> Iterator[Regime]:
    """mild: about −0.04 a token; kimi: the initialisation of A in U(1, 16); strong: −8 a token; learnt: a model's own."""
    draws = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=draws)

    bias = uniform(-6.9, -2.3, HEADS, KEY).exp().expm1().log()
    yield Regime("mild", torch.zeros(HEADS), torch.full((HEADS, KEY), -3.2))
    yield Regime("kimi", uniform(1, 16, HEADS).log(), bias)
    yield Regime("strong", torch.zeros(HEADS), torch.full((HEADS, KEY), 8.0))
    for layer, (A_log, dt_bias) in enumerate(learnt):
        if tuple(dt_bias.shape) == (HEADS, KEY):
            yield Regime(f"learnt-{layer}", A_log.float(), dt_bias.float())


def inputs(regime: Regime, recipe: Recipe, seed: int) -> KdaInputs:
    """Random activations in the recipe's activation precision."""
    draws = torch.Generator().manual_seed(seed)
    tokens = sum(LENGTHS)

    def normal(*shape: int) -> Tensor:
        return round_to(torch.randn(*shape, generator=draws), recipe.activation)

    return KdaInputs(
        normal(tokens, HEADS, KEY),
        normal(tokens, HEADS, KEY),
        normal(tokens, HEADS, VALUE),
        normal(tokens, HEADS, KEY) * 0.5,
        normal(tokens, HEADS),
        regime.A_log,
        regime.dt_bias,
        (0, *accumulate(LENGTHS)),
    )


def _relative(x: Tensor, reference: Tensor) -> float:
    return float((x.cpu().double() - reference).norm() / reference.norm())


def probe_kernel(
    kernel: StateKernel,
    claimed: Recipe,
    regime: Regime,
    seed: int,
    run_as: Recipe | None = None,
    device: str = "cpu",
) -> ProbeResult:
    """Compare one kernel with the oracle, which runs on the CPU.

    Args:
        claimed: the recipe whose prediction judges.
        run_as: the recipe that really runs, if a fault makes it another one.
        device: where the kernel runs.
    """
    x = inputs(regime, claimed, seed)
    draws = torch.Generator().manual_seed(seed + 1)
    initial = torch.randn(len(LENGTHS), HEADS, VALUE, KEY, generator=draws) * 0.1
    truth = ORACLE_KERNEL(x, initial, (), claimed)
    found = kernel(x.to(device), initial.to(device), (), run_as or claimed)
    span = decay_span(x, claimed)
    predicted = predict(claimed, kernel.form, KEY, span)
    if device != "cpu":
        functions = elementwise(x, claimed, on_gpu=True)
        predicted = Predicted(hypot(predicted.state, functions), hypot(predicted.output, functions))
    o, state = _relative(found.o, truth.o), _relative(found.final, truth.final)
    ratio = max(o / predicted.output, state / predicted.state)
    return ProbeResult(
        name=f"kernels/{kernel.name.split('/')[-1]}/{claimed.name}/{regime.name}",
        verdict="pass" if ratio <= 1 else "fail",
        sentence=(
            f"{kernel.name} under recipe {claimed.name}, {regime.name} decay: error against float64 {o:.2e} on o and "
            f"{state:.2e} on the state; the recipe predicts {predicted.output:.2e} and {predicted.state:.2e} or less."
        ),
        values={
            "error": o,
            "predicted": predicted.output,
            "state_error": state,
            "state_predicted": predicted.state,
            "ratio": ratio,
            "log_decay_span": span,
        },
    )
