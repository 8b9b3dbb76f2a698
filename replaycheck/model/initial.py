"""Weights before training, from a seed: where `model train` starts, and what a random model is."""

from __future__ import annotations

import math
from typing import Final

import torch

from replaycheck.model.config import ModelConfig
from replaycheck.model.tensors import TensorSpec, expected_tensors

__all__ = ["initial_weights"]

# transformers' `initializer_range`, the value that Kimi Linear's configuration carries too.
_STD: Final = 0.02
# Rates of forgetting A and time steps dt at the start, as fla and transformers draw them (after Mamba).
_RATES: Final = (1.0, 16.0)
_TIME_STEPS: Final = (1e-3, 1e-1)


def initial_weights(config: ModelConfig, seed: int) -> dict[str, torch.Tensor]:
    """fp32 weights by published name, on the CPU; the same for the same seed.

    Matrices are normal with 0.02, those that write to the residual stream divided by sqrt(2·layers); norms
    are ones; convolutions uniform in ±1/sqrt(width); ``A_log`` = log U(1, 16); ``dt_bias`` is the inverse
    softplus of exp U(log 1e-3, log 1e-1).
    """
    generator = torch.Generator().manual_seed(seed)
    return {name: _draw(name, spec, config, generator) for name, spec in expected_tensors(config).items()}


def _draw(name: str, spec: TensorSpec, config: ModelConfig, generator: torch.Generator) -> torch.Tensor:
    leaf = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if leaf.endswith("norm"):
        return torch.ones(spec.shape)
    if leaf == "A_log":
        return _uniform(spec.shape, *_RATES, generator).log()
    if leaf == "dt_bias":
        low, high = map(math.log, _TIME_STEPS)
        return _inverse_softplus(_uniform(spec.shape, low, high, generator).exp())
    if leaf.endswith("conv1d"):
        bound = 1.0 / math.sqrt(spec.shape[-1])
        return _uniform(spec.shape, -bound, bound, generator)
    writes_residual = leaf in ("o_proj", "down_proj")
    std = _STD / math.sqrt(2 * config.num_layers) if writes_residual else _STD
    return torch.randn(spec.shape, generator=generator) * std


def _uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator) * (high - low) + low


def _inverse_softplus(y: torch.Tensor) -> torch.Tensor:
    """x with softplus(x) = y; by expm1, since log(exp(y) − 1) loses three digits at y = 1e-3 in fp32."""
    return y + torch.log(-torch.expm1(-y))
