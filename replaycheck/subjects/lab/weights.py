"""The weights of a checkpoint as the lab uses them, converted exactly: to the dtype of the computation, or on a GPU for
projections to the dtype in which tensor cores multiply them with activations without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from replaycheck.model.checkpoint import load_weights
from replaycheck.model.config import ModelConfig, load_config
from replaycheck_kernels import dense
from replaycheck_kernels.precision import Precision, container

from .device import uses_triton
from .kda import KdaWeights
from .layers import Matrix

_PROJECTIONS = ("_proj.", "_proj_with_mqa.", "lm_head.")
"""In the names of the matrices that activations are multiplied with."""


@dataclass(frozen=True)
class MlaWeights:
    """Latent attention without rotary: every head has keys of nope + shared rope part and values."""

    q: Matrix  # [H (nope + rope), hidden]
    kv_a: Tensor  # [rank + rope, hidden]
    kv_norm: Tensor  # [rank]
    kv_b: Matrix  # [H (nope + v), rank]
    o: Tensor  # [hidden, H v]


@dataclass(frozen=True)
class LayerWeights:
    """One layer: attention of either kind, two norms and the MLP."""

    attention: KdaWeights | MlaWeights
    attention_norm: Tensor  # [hidden]
    mlp_norm: Tensor  # [hidden]
    gate: Matrix  # [inner, hidden]
    up: Matrix  # [inner, hidden]
    down: Tensor  # [hidden, inner]


@dataclass(frozen=True)
class NetworkWeights:
    """The whole network."""

    embedding: Tensor  # [vocabulary, hidden]
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [hidden]
    head: Tensor  # [vocabulary, hidden]


def load(path: Path, activation: Precision, device: torch.device) -> tuple[ModelConfig, NetworkWeights]:
    """Read a model directory to a device, for activations of that precision.

    Raises:
        UsageError: the files are missing, truncated or don't fit the configuration.
    """
    config = load_config(path)
    stored = {name: _placed(name, tensor, activation, device) for name, tensor in load_weights(path).items()}
    layers = tuple(
        _layer(stored, f"model.layers.{i}.", config, kind == "kda") for i, kind in enumerate(config.layer_kinds)
    )
    return config, NetworkWeights(
        stored["model.embed_tokens.weight"], layers, stored["model.norm.weight"], stored["lm_head.weight"]
    )


def _placed(name: str, tensor: Tensor, activation: Precision, device: torch.device) -> Tensor:
    """A stored tensor on the device, in the dtype that its use there wants."""
    if uses_triton(device) and any(part in name for part in _PROJECTIONS):
        return dense.prepare_weight(tensor.to(device), activation)
    return tensor.to(device, container(activation))


def _layer(stored: dict[str, Tensor], prefix: str, config: ModelConfig, kda: bool) -> LayerWeights:
    return LayerWeights(
        _kda(stored, prefix + "self_attn.", config) if kda else _mla(stored, prefix + "self_attn."),
        stored[prefix + "input_layernorm.weight"],
        stored[prefix + "post_attention_layernorm.weight"],
        *(stored[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up", "down")),
    )


def _kda(stored: dict[str, Tensor], prefix: str, config: ModelConfig) -> KdaWeights:
    def get(name: str) -> Tensor:
        return stored[f"{prefix}{name}.weight"]

    return KdaWeights(
        qkv=torch.cat([get(f"{part}_proj") for part in "qkv"]),
        conv=torch.cat([get(f"{part}_conv1d") for part in "qkv"]).squeeze(1),
        f_a=get("f_a_proj"),
        f_b=get("f_b_proj"),
        g_a=get("g_a_proj"),
        g_b=get("g_b_proj"),
        b=get("b_proj"),
        A_log=stored[prefix + "A_log"].flatten(),
        dt_bias=stored[prefix + "dt_bias"].view(config.kda_heads, config.kda_head_dim),
        o_norm=get("o_norm"),
        o=get("o_proj"),
    )


def _mla(stored: dict[str, Tensor], prefix: str) -> MlaWeights:
    names = ("q_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj")
    return MlaWeights(*(stored[f"{prefix}{name}.weight"] for name in names))
