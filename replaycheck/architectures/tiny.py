"""Tiny configurations: sizes for the fields that most families share, and what a few need beside them.

Sizes only: nothing here says what an architecture can do. A family that isn't named gets the common sizes; if its
configuration then contradicts itself, the sweep says that it can't be built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from .discover import library

__all__ = ["VOCABULARY", "sizes", "tiny_config"]

VOCABULARY = 128
LAYERS = 4
FULL, LINEAR, CONV, SLIDING = "full_attention", "linear_attention", "conv", "sliding_attention"
INDEXED = "indexed_attention"

#: By field name. K ≠ V wherever a family lets them differ; chunks and windows are shorter than the prompts, so that all of
#: their boundaries are crossed; token 0 is for padding, and no token ends a generation.
_COMMON: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": VOCABULARY,
        "unpadded_vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "shared_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
        "moe_shared_expert_intermediate_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 16,
        "max_position_embeddings": 512,
        "context_length": 512,
        "initializer_range": 0.1,
        "num_experts": 4,
        "num_local_experts": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "kv_lora_rank": 32,
        "q_lora_rank": 32,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 24,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 16,
        "linear_head_dim": 16,
        "linear_num_heads": 4,
        "mamba_n_heads": 8,
        "mamba_num_heads": 8,
        "mamba_d_head": 16,
        "mamba_head_dim": 16,
        "mamba_d_ssm": 128,
        "mamba_d_state": 24,
        "mamba_n_groups": 2,
        "mamba_ngroups": 2,
        "mamba_chunk_size": 32,
        "n_mamba_heads": 2,
        "mamba_dt_rank": 8,
        "chunk_size": 32,
        "block_size": 32,
        "state_size": 24,
        "ssm_state_size": 24,
        "n_groups": 2,
        "num_heads": 8,
        "time_step_rank": 8,
        "sliding_window": 24,
        "sliding_window_size": 24,
        "attention_window_size": 24,
        "router_hidden_size": 32,
        "num_mtp_layers": 0,
        "num_nextn_predict_layers": 0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": None,
    }
)

_HYBRID = {"layer_types": [LINEAR, LINEAR, FULL, LINEAR]}

#: What a family needs for its sizes to fit each other, or to have every kind of layer that it can have.
_OWN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "bailing_hybrid": _HYBRID | {"num_key_value_heads": 4, "mlp_layer_types": ["dense", "sparse"] * 2},
        "bamba": {"attn_layer_indices": [2]},
        "granitemoehybrid": {"layer_types": ["mamba", "mamba", "attention", "mamba"]},
        "inkling_text": {"logits_mup_width_multiplier": 1.0},
        "jamba": {"attn_layer_period": 4, "attn_layer_offset": 2},
        "kimi_linear": _HYBRID | {"num_key_value_heads": 4, "mlp_layer_types": ["dense", "sparse"] * 2},
        "lfm2": {"layer_types": [CONV, CONV, FULL, CONV], "block_auto_adjust_ff_dim": False},
        "lfm2_moe": {"layer_types": [CONV, CONV, FULL, CONV], "num_dense_layers": 1},
        "lfm3": {"layer_types": [CONV, SLIDING, FULL, CONV]},
        "mamba2": {"head_dim": 16},
        "minimax": {"sliding_window": None},
        "nemotron_h": {"layers_block_type": ["mamba", "moe", "attention", "mamba"], "sliding_window": None},
        "olmo_hybrid": _HYBRID | {"num_key_value_heads": 4, "linear_num_key_heads": 4},
        "qwen3_5_moe_text": _HYBRID,
        "qwen3_5_text": _HYBRID,
        "qwen3_next": _HYBRID,
        "qwen4_exp_text": {
            "layer_types": [LINEAR, LINEAR, INDEXED, LINEAR],
            "eos_token_id": 2,
            "ple_layer_ids": [1],
            "ple_embed_dim": 64,
            "hc_lowrank": 16,
            "ngram_vocab_size_base": 256,
            "heads_per_ngram": 2,
            "split_ngram_parts": 2,
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 16,
            "indexer_budget": 64,
            "indexer_compress_ratio": 4,
        },
        "recurrent_gemma": {"block_types": ["recurrent", "attention", "recurrent"], "lru_width": 64},
        "xlstm": {"num_heads": 4, "num_blocks": LAYERS, "hidden_size": 128, "embedding_dim": 128},
        "zamba": {"num_hidden_layers": 5, "attn_layer_period": 2, "attn_layer_offset": 1, "num_key_value_heads": 4},
        "zamba2": {"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "num_key_value_heads": 4},
        "zaya": {"layer_types": ["hybrid", "hybrid_sliding"] * 2, "num_experts_per_tok": 1},
    }
)


def sizes(name: str) -> dict[str, Any]:
    """The fields that a tiny configuration sets."""
    made = _class(name)
    known = {each.name for each in fields(made)} | set(made.attribute_map)
    return {field: value for field, value in _COMMON.items() if field in known} | dict(_OWN.get(name, {}))


def tiny_config(name: str) -> Any:
    """The configuration of a small model of that architecture, d = 64, of a few layers."""
    return _class(name)(**sizes(name))


def _class(name: str) -> Any:
    library()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[name]
