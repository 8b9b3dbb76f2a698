"""A Kimi Linear checkpoint as GGUF for llama.cpp's graph ``kimi-linear`` (read in build 11434, run in build 11549).

The graph holds the geometry exactly: MLPs are dense below ``leading_dense_block_count``, latent attention caches its
compressed keys (``kv_b_proj`` split, the key part transposed), and nothing is rotated. It has one number for every norm's
epsilon, though, where the reference has three:

* the residual stream's norms and the output norm: ``rms_norm_eps``, and so has the graph;
* the norm of the compressed key-value: :data:`KV_NORM_EPS`. A norm doesn't feel the scale of what it gets but through its
  epsilon: rows of ``kv_a_proj`` times sqrt(graph / reference) make the graph's epsilon the reference's;
* the L2 norms of q and k: 1e-6 (fla and transformers), for which no weight can be scaled, as SiLU stands before them. A
  key of squared length n comes out short by (graph − reference) / 2n. This is all that doesn't fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replaycheck.model.checkpoint import load_weights
from replaycheck.model.config import KV_NORM_EPS, ModelConfig, load_config
from replaycheck.model.gguf_file import Field, GgufModel, write_gguf
from replaycheck.model.tensors import layer_prefix

__all__ = ["ARCHITECTURE", "export_gguf", "gguf_model"]

ARCHITECTURE = "kimi-linear"

_SIGMOID = 2
"""``LLAMA_EXPERT_GATING_FUNC_TYPE_SIGMOID``: asked for, and without experts never read."""

Weights = Mapping[str, NDArray[np.float32]]
Named = Iterator[tuple[str, NDArray[np.float32]]]


def export_gguf(folder: Path, file: Path) -> None:
    """Write the checkpoint in ``folder`` to ``file``.

    Raises:
        UsageError: the checkpoint is missing or wrong. EngineEnvironmentError: no package ``gguf``.
    """
    weights = {name: tensor.float().numpy() for name, tensor in load_weights(folder).items()}
    write_gguf(file, gguf_model(folder.resolve().name, load_config(folder), weights))


def gguf_model(name: str, config: ModelConfig, weights: Weights) -> GgufModel:
    """Fields and tensors of the graph, from fp32 weights by published name."""
    tensors = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights["lm_head.weight"],
    }
    for layer, kind in enumerate(config.layer_kinds):
        mine = {key.removeprefix(layer_prefix(layer)): w for key, w in weights.items() if _of(layer, key)}
        named = (*_shared(mine), *(_kda(mine) if kind == "kda" else _mla(mine, config)))
        tensors |= {f"blk.{layer}.{key}": tensor for key, tensor in named}
    return GgufModel(name, ARCHITECTURE, _fields(config), tensors)


def _fields(config: ModelConfig) -> dict[str, Field]:
    return {
        "vocab_size": config.vocab_size,
        "context_length": config.max_length,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.mla_heads,
        # No head marks a recurrent layer; latent attention has one head of keys and values for all queries.
        "attention.head_count_kv": [int(kind == "mla") for kind in config.layer_kinds],
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.kv_lora_rank": config.kv_lora_rank,
        "attention.key_length": config.kv_lora_rank + config.qk_rope_head_dim,
        "attention.value_length": config.kv_lora_rank,
        "attention.key_length_mla": config.qk_head_dim,
        "attention.value_length_mla": config.v_head_dim,
        "rope.dimension_count": config.qk_rope_head_dim,
        "ssm.conv_kernel": config.conv_width,
        "kda.head_dim": config.kda_head_dim,
        "leading_dense_block_count": config.num_layers,
        "expert_feed_forward_length": config.intermediate_size,
        "expert_shared_count": 0,
        "expert_gating_func": _SIGMOID,
    }


def _of(layer: int, name: str) -> bool:
    return name.startswith(layer_prefix(layer))


def _shared(mine: Weights) -> Named:
    yield "attn_norm.weight", mine["input_layernorm.weight"]
    yield "ffn_norm.weight", mine["post_attention_layernorm.weight"]
    for part in ("gate", "up", "down"):
        yield f"ffn_{part}.weight", mine[f"mlp.{part}_proj.weight"]
    yield "attn_output.weight", mine["self_attn.o_proj.weight"]


def _kda(mine: Weights) -> Named:
    """The graph takes −exp(A_log), and convolutions as [1, channels, 1, width]."""
    for part in "qkv":
        yield f"attn_{part}.weight", mine[f"self_attn.{part}_proj.weight"]
        yield f"ssm_conv1d_{part}.weight", mine[f"self_attn.{part}_conv1d.weight"][None]
    for part in ("f_a", "f_b", "g_a", "g_b"):
        yield f"ssm_{part}.weight", mine[f"self_attn.{part}_proj.weight"]
    yield "ssm_beta.weight", mine["self_attn.b_proj.weight"]
    yield "ssm_a", -np.exp(mine["self_attn.A_log"])
    yield "ssm_dt.bias", mine["self_attn.dt_bias"]
    yield "ssm_norm.weight", mine["self_attn.o_norm.weight"]


def _mla(mine: Weights, config: ModelConfig) -> Named:
    yield "attn_q.weight", mine["self_attn.q_proj.weight"]
    compress = mine["self_attn.kv_a_proj_with_mqa.weight"].copy()
    compress[: config.kv_lora_rank] *= math.sqrt(config.rms_norm_eps / KV_NORM_EPS)
    yield "attn_kv_a_mqa.weight", compress
    yield "attn_kv_a_norm.weight", mine["self_attn.kv_a_layernorm.weight"]
    heads = mine["self_attn.kv_b_proj.weight"].reshape(config.mla_heads, -1, config.kv_lora_rank)
    key, value = np.split(heads, [config.qk_nope_head_dim], axis=1)
    yield "attn_k_b.weight", key.transpose(0, 2, 1)
    yield "attn_v_b.weight", value
