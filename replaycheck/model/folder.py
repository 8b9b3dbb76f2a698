"""Writing a model directory that replaycheck, transformers and engines all read.

Every file appears by atomic rename, the weights last: a directory with weights is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save

from replaycheck.model.checkpoint import WEIGHTS_FILE
from replaycheck.model.config import CONFIG_FILE, ModelConfig
from replaycheck.model.tensors import expected_tensors
from replaycheck.model.tokenizer import tokenizer_config, tokenizer_definition
from replaycheck.traces import vocabulary

__all__ = ["SHIPPED_CONFIG", "config_json", "write_folder", "write_json"]

#: The model that ships: true inner sizes of Kimi Linear (KDA heads of 128, MLA rank 512 with 128 + 64 wide
#: keys), few heads and a small hidden size. The last layer is KDA, so that a state error reaches the logits
#: without an attention layer in between; the two MLA layers keep the hybrid cache in play.
SHIPPED_CONFIG: Final = ModelConfig(
    vocab_size=vocabulary.SIZE,
    hidden_size=256,
    intermediate_size=512,
    layer_kinds=("kda", "kda", "mla", "kda", "kda", "kda", "mla", "kda"),
    kda_heads=2,
    kda_head_dim=128,
    conv_width=4,
    mla_heads=2,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    rms_norm_eps=1e-5,
    max_length=8192,
    bos_token_id=vocabulary.BOS,
    eos_token_id=vocabulary.END,
    pad_token_id=vocabulary.PAD,
)


def write_folder(folder: Path, config: ModelConfig, weights: Mapping[str, torch.Tensor]) -> None:
    """Write configuration, tokenizer and weights; matrices and norms in bf16, the decay parameters in fp32.

    ``weights`` is keyed by published name and holds every tensor of :func:`expected_tensors`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG_FILE, config_json(config))
    write_json(folder / "generation_config.json", _special_ids(config))
    write_json(folder / "tokenizer.json", tokenizer_definition())
    write_json(folder / "tokenizer_config.json", tokenizer_config(config.max_length))
    temporary = folder / f".{WEIGHTS_FILE}.part"
    temporary.write_bytes(save(_stored(config, weights), metadata={"format": "pt"}))
    temporary.replace(folder / WEIGHTS_FILE)


def write_json(file: Path, value: Mapping[str, object]) -> None:
    """``value`` as indented ASCII JSON with sorted keys, by atomic rename."""
    temporary = file.with_name(f".{file.name}.part")
    temporary.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="ascii")
    temporary.replace(file)


def config_json(config: ModelConfig) -> dict[str, object]:
    """The content of ``config.json``, with the keys of the published checkpoint and those of transformers."""
    return {
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "dtype": "bfloat16",
        **_special_ids(config),
        **_sizes(config),
        **_kda_keys(config),
        # Dense everywhere: no experts, and no layer number reaches the first sparse one.
        "num_experts": None,
        "first_k_dense_replace": config.num_layers,
        "moe_layer_freq": 1,
        "mlp_layer_types": ["dense"] * config.num_layers,
    }


def _special_ids(config: ModelConfig) -> dict[str, object]:
    return {
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
    }


def _sizes(config: ModelConfig) -> dict[str, object]:
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.mla_heads,
        "num_key_value_heads": config.mla_heads,
        "head_dim": config.v_head_dim,
        "kv_lora_rank": config.kv_lora_rank,
        "q_lora_rank": None,
        "qk_nope_head_dim": config.qk_nope_head_dim,
        "qk_rope_head_dim": config.qk_rope_head_dim,
        "v_head_dim": config.v_head_dim,
        "mla_use_nope": True,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "model_max_length": config.max_length,
        "tie_word_embeddings": False,
        "use_cache": True,
        "initializer_range": 0.02,
    }


def _kda_keys(config: ModelConfig) -> dict[str, object]:
    names = {"kda": "linear_attention", "mla": "full_attention"}
    return {
        "linear_attn_config": {
            "kda_layers": [layer + 1 for layer in config.kda_layers],
            "full_attn_layers": [layer + 1 for layer in config.mla_layers],
            "num_heads": config.kda_heads,
            "head_dim": config.kda_head_dim,
            "short_conv_kernel_size": config.conv_width,
        },
        "layer_types": [names[kind] for kind in config.layer_kinds],
        "linear_num_heads": config.kda_heads,
        "linear_head_dim": config.kda_head_dim,
        "linear_conv_kernel_dim": config.conv_width,
    }


def _stored(config: ModelConfig, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU copies in their storage types."""
    return {
        name: weights[name].detach().to("cpu", torch.float32 if spec.keep_fp32 else torch.bfloat16).contiguous()
        for name, spec in expected_tensors(config).items()
    }
