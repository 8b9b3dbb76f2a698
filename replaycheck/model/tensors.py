"""Which tensors a checkpoint must hold: published names, shapes and storage types, from the configuration.

The names are those of the published Kimi Linear checkpoints, which engines and transformers both load.
One difference is absorbed here: transformers 5.23 *writes* a dense MLP as ``block_sparse_moe.*`` (its
reverse renaming does not tell dense from sparse), where published checkpoints have ``mlp.*``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from replaycheck.model.config import ModelConfig

__all__ = ["TensorSpec", "canonical_name", "expected_tensors", "layer_prefix", "parameter_count"]

_DENSE_AS_SPARSE: Final = re.compile(r"\.block_sparse_moe\.(?=(?:gate|up|down)_proj\.)")


@dataclass(frozen=True)
class TensorSpec:
    """Shape of one tensor; ``keep_fp32`` marks the two decay parameters that are stored in fp32.

    ``A_log`` and ``dt_bias`` pass through exp and softplus, and the decay then multiplies over thousands of
    tokens; a bf16 ``A_log`` of 2.7 is off by up to 0.8 % in the rate.
    """

    shape: tuple[int, ...]
    keep_fp32: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def layer_prefix(layer: int) -> str:
    """The start of the names of one layer's tensors; layers count from 0."""
    return f"model.layers.{layer}."


def canonical_name(name: str) -> str:
    """The published name of a tensor, also for transformers' spelling of a dense MLP.

    >>> canonical_name("model.layers.0.block_sparse_moe.up_proj.weight")
    'model.layers.0.mlp.up_proj.weight'
    """
    return _DENSE_AS_SPARSE.sub(".mlp.", name)


def expected_tensors(config: ModelConfig) -> dict[str, TensorSpec]:
    """Every tensor of a checkpoint, by published name, in the order of the forward pass.

    Linear weights are [out, in]; convolutions [channels, 1, width]; ``A_log`` [1, 1, heads, 1].
    """
    hidden, vocab = config.hidden_size, config.vocab_size
    specs = {"model.embed_tokens.weight": TensorSpec((vocab, hidden))}
    for layer, kind in enumerate(config.layer_kinds):
        parts = _kda(config) if kind == "kda" else _mla(config)
        specs |= {layer_prefix(layer) + name: spec for name, spec in (*_norms(config), *parts, *_mlp(config))}
    return specs | {"model.norm.weight": TensorSpec((hidden,)), "lm_head.weight": TensorSpec((vocab, hidden))}


def parameter_count(config: ModelConfig) -> int:
    """Number of parameters of the whole network, embeddings included."""
    return sum(spec.size for spec in expected_tensors(config).values())


def _norms(config: ModelConfig) -> Iterator[tuple[str, TensorSpec]]:
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{name}.weight", TensorSpec((config.hidden_size,))


def _kda(config: ModelConfig) -> Iterator[tuple[str, TensorSpec]]:
    hidden, width, head = config.hidden_size, config.kda_width, config.kda_head_dim
    for part in ("q", "k", "v"):
        yield f"self_attn.{part}_proj.weight", TensorSpec((width, hidden))
        yield f"self_attn.{part}_conv1d.weight", TensorSpec((width, 1, config.conv_width))
    for part in ("f", "g"):
        yield f"self_attn.{part}_a_proj.weight", TensorSpec((head, hidden))
        yield f"self_attn.{part}_b_proj.weight", TensorSpec((width, head))
    yield "self_attn.b_proj.weight", TensorSpec((config.kda_heads, hidden))
    yield "self_attn.A_log", TensorSpec((1, 1, config.kda_heads, 1), keep_fp32=True)
    yield "self_attn.dt_bias", TensorSpec((width,), keep_fp32=True)
    yield "self_attn.o_norm.weight", TensorSpec((head,))
    yield "self_attn.o_proj.weight", TensorSpec((hidden, width))


def _mla(config: ModelConfig) -> Iterator[tuple[str, TensorSpec]]:
    hidden, heads, rank = config.hidden_size, config.mla_heads, config.kv_lora_rank
    yield "self_attn.q_proj.weight", TensorSpec((heads * config.qk_head_dim, hidden))
    yield "self_attn.kv_a_proj_with_mqa.weight", TensorSpec((rank + config.qk_rope_head_dim, hidden))
    yield "self_attn.kv_a_layernorm.weight", TensorSpec((rank,))
    yield "self_attn.kv_b_proj.weight", TensorSpec((heads * (config.qk_nope_head_dim + config.v_head_dim), rank))
    yield "self_attn.o_proj.weight", TensorSpec((hidden, heads * config.v_head_dim))


def _mlp(config: ModelConfig) -> Iterator[tuple[str, TensorSpec]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    yield "mlp.gate_proj.weight", TensorSpec((inner, hidden))
    yield "mlp.up_proj.weight", TensorSpec((inner, hidden))
    yield "mlp.down_proj.weight", TensorSpec((hidden, inner))
