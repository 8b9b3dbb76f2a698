"""The network as a function of its weights: Kimi Linear with KDA and MLA layers and dense MLPs, for training.

Weights are a mapping by published name, so that exporting is writing them down. The parts between two
recurrences are pure functions of tensors, which torch compiles once for all layers. This network is *not*
for replay: its shapes and fusions change bits; the lab has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from replaycheck.model.config import KV_NORM_EPS, ModelConfig
from replaycheck.model.tensors import layer_prefix
from replaycheck.model.train.delta import DeltaRule

__all__ = ["Network", "rms_norm"]

Weights = Mapping[str, Tensor]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., D] / sqrt(mean x² + eps) · weight [D] over the last axis, in fp32."""
    x = x.float()
    normed: Tensor = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    return normed


def _short_conv(x: Tensor, weight: Tensor) -> Tensor:
    """Causal depthwise convolution and SiLU: x [B, T, C], weight [C, 1, W], zeros before the first token."""
    length, width = x.shape[1], weight.shape[-1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    total = padded[:, :length] * weight[:, 0, 0]
    for i in range(1, width):
        total = total + padded[:, i : i + length] * weight[:, 0, i]
    return F.silu(total).to(x.dtype)


def _kda_inputs(x: Tensor, weights: Weights, heads: int, eps: float) -> tuple[Tensor, ...]:
    """From the residual [B, T, hidden] to q, k, v, raw decay [B, T, H, D], raw beta [B, T, H], raw gate [B, T, H, D]."""
    x = rms_norm(x, weights["input_layernorm.weight"], eps)

    def project(name: str, value: Tensor) -> Tensor:
        return F.linear(value, weights[f"self_attn.{name}_proj.weight"])

    def split(value: Tensor) -> Tensor:
        per_head: Tensor = value.unflatten(-1, (heads, -1))
        return per_head.contiguous()

    q, k, v = [split(_short_conv(project(p, x), weights[f"self_attn.{p}_conv1d.weight"])) for p in ("q", "k", "v")]
    decay = split(project("f_b", project("f_a", x)))
    gate = split(project("g_b", project("g_a", x)))
    return q, k, v, decay, project("b", x), gate


def _kda_outputs(x: Tensor, o: Tensor, gate: Tensor, weights: Weights, eps: float) -> Tensor:
    """Gated norm of the recurrence's output, back to the residual, then the MLP."""
    gated = rms_norm(o, weights["self_attn.o_norm.weight"], eps) * gate.float().sigmoid()
    return _mlp(x + F.linear(gated.flatten(-2), weights["self_attn.o_proj.weight"]), weights, eps)


def _mla_layer(x: Tensor, weights: Weights, config: ModelConfig) -> Tensor:
    """Causal attention without positions over a compressed key-value, then the MLP."""
    heads, nope = config.mla_heads, config.qk_nope_head_dim
    normed = rms_norm(x, weights["input_layernorm.weight"], config.rms_norm_eps)
    q = F.linear(normed, weights["self_attn.q_proj.weight"]).unflatten(-1, (heads, -1)).transpose(1, 2)
    compressed = F.linear(normed, weights["self_attn.kv_a_proj_with_mqa.weight"])
    latent, shared = compressed.split([config.kv_lora_rank, config.qk_rope_head_dim], -1)
    latent = rms_norm(latent, weights["self_attn.kv_a_layernorm.weight"], KV_NORM_EPS)
    expanded = F.linear(latent, weights["self_attn.kv_b_proj.weight"]).unflatten(-1, (heads, -1)).transpose(1, 2)
    k_own, v = expanded.split([nope, config.v_head_dim], -1)
    k = torch.cat([k_own, shared.unsqueeze(1).expand(-1, heads, -1, -1)], -1)
    # Zeros make values as wide as keys: flash attention, forward and backward, takes one head width only.
    v = F.pad(v, (0, config.qk_head_dim - config.v_head_dim))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)[..., : config.v_head_dim]
    x = x + F.linear(o.transpose(1, 2).flatten(-2), weights["self_attn.o_proj.weight"])
    return _mlp(x, weights, config.rms_norm_eps)


def _mlp(x: Tensor, weights: Weights, eps: float) -> Tensor:
    normed = rms_norm(x, weights["post_attention_layernorm.weight"], eps)
    inner = F.silu(F.linear(normed, weights["mlp.gate_proj.weight"]))
    inner = inner * F.linear(normed, weights["mlp.up_proj.weight"])
    return x + F.linear(inner, weights["mlp.down_proj.weight"])


def _token_losses(x: Tensor, norm: Tensor, head: Tensor, targets: Tensor, eps: float) -> Tensor:
    """Nats of each target: x [B, T, hidden], targets [B, T] → [B, T]."""
    logits = F.linear(rms_norm(x, norm, eps), head).float()
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


@dataclass(frozen=True)
class Network:
    """The parts, each eager or compiled, and the recurrence between them."""

    config: ModelConfig
    delta: DeltaRule
    kda_inputs: Callable[..., tuple[Tensor, ...]] = _kda_inputs
    kda_outputs: Callable[..., Tensor] = _kda_outputs
    mla_layer: Callable[..., Tensor] = _mla_layer
    token_losses: Callable[..., Tensor] = _token_losses

    @classmethod
    def compiled(cls, config: ModelConfig, delta: DeltaRule) -> Network:
        """Parts compiled for static shapes: each batch shape compiles once."""
        once = partial(torch.compile, dynamic=False, fullgraph=True)
        return cls(config, delta, once(_kda_inputs), once(_kda_outputs), once(_mla_layer), once(_token_losses))

    def losses(self, weights: Weights, tokens: Tensor, targets: Tensor) -> Tensor:
        """Nats of each target [B, T], for int64 ``tokens`` [B, T] whose states all start from zero."""
        eps = self.config.rms_norm_eps
        x = F.embedding(tokens, weights["model.embed_tokens.weight"])
        for layer, kind in enumerate(self.config.layer_kinds):
            own = _of_layer(weights, layer)
            x = self._kda(x, own) if kind == "kda" else self.mla_layer(x, own, self.config)
        return self.token_losses(x, weights["model.norm.weight"], weights["lm_head.weight"], targets, eps)

    def _kda(self, x: Tensor, weights: Weights) -> Tensor:
        heads, eps = self.config.kda_heads, self.config.rms_norm_eps
        q, k, v, decay, beta, gate = self.kda_inputs(x, weights, heads, eps)
        o = self.delta(q, k, v, decay, beta, weights["self_attn.A_log"].view(heads), weights["self_attn.dt_bias"])
        return self.kda_outputs(x, o, gate, weights, eps)


def _of_layer(weights: Weights, layer: int) -> dict[str, Tensor]:
    prefix = layer_prefix(layer)
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
