"""Faults of loaders: configuration and weights in, configuration and weights out. Planted before ranks take their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from replaycheck.model.config import ModelConfig
from replaycheck.subjects.lab.kda import KdaWeights
from replaycheck.subjects.lab.weights import NetworkWeights

__all__ = ["WeightsFault", "in_each_layer", "norm_epsilon"]

Loaded = tuple[ModelConfig, NetworkWeights]
WeightsFault = Callable[[ModelConfig, NetworkWeights], Loaded]


def in_each_layer(change: Callable[[KdaWeights], KdaWeights]) -> WeightsFault:
    """The same mistake in every KDA layer."""

    def fault(config: ModelConfig, weights: NetworkWeights) -> Loaded:
        layers = tuple(
            replace(layer, attention=change(layer.attention)) if isinstance(layer.attention, KdaWeights) else layer
            for layer in weights.layers
        )
        return config, replace(weights, layers=layers)

    return fault


def norm_epsilon(value: float) -> WeightsFault:
    """F16: the epsilon of the norms from somewhere else than the configuration."""
    return lambda config, weights: (replace(config, rms_norm_eps=value), weights)


def _bf16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


rates_bf16 = in_each_layer(lambda w: replace(w, A_log=_bf16(w.A_log)))
"""F12: A_log passes through bf16, so each head forgets a little faster or slower, always by the same."""

bias_bf16 = in_each_layer(lambda w: replace(w, dt_bias=_bf16(w.dt_bias)))
"""F12, for dt_bias."""

bias_dropped = in_each_layer(lambda w: replace(w, dt_bias=torch.zeros_like(w.dt_bias)))
"""F66: an optional argument that nobody passes."""

rates_of_the_next_head = in_each_layer(lambda w: replace(w, A_log=w.A_log.roll(1, 0), dt_bias=w.dt_bias.roll(1, 0)))
"""F36: A_log and dt_bias of another shard."""

narrow_conv = in_each_layer(lambda w: replace(w, conv=torch.cat([torch.zeros_like(w.conv[:, :1]), w.conv[:, 1:]], 1)))
"""F70: a convolution over three tokens instead of four."""

conv_reversed = in_each_layer(lambda w: replace(w, conv=w.conv.flip(1)))
"""F70: taps in the other order."""

decay_rank_halved = in_each_layer(
    lambda w: replace(w, f_a=torch.cat([w.f_a[: len(w.f_a) // 2], torch.zeros_like(w.f_a[len(w.f_a) // 2 :])]))
)
"""F35: the decay's low-rank input is sharded where it must be whole, so that half of it is missing."""
