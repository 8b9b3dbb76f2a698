"""qwen3_next: three layers of Gated DeltaNet and one of attention, with a small mixture of experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .weights import HIDDEN, VOCABULARY, save

__all__ = ["write_qwen3_next"]

HEADS, SIZE = 2, 128
"""Heads of the recurrent layers, and channels of each. With 32 the CPU's kernel stops: "Unexpected head dim size, 32"."""

DECAYS = (0.002, 0.05)
"""Of a head's state, per token and unit of step size: half-lives from about ten tokens to several hundred. Transformers
draws up to 16, and then a state forgets all but the last tokens, so that a wiped one is hardly seen."""

OUT = 4.0
"""Factor of the recurrent layers' output projections, so that what they remember outweighs the token itself."""


def write_qwen3_next(folder: Path) -> None:
    """0.9 M parameters; all experts are chosen, so that no router flips."""
    import torch
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_num_key_heads=HEADS,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=SIZE,
        linear_value_head_dim=SIZE,
        num_experts=2,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        mlp_only_layers=[0, 1, 2],
        max_position_embeddings=4096,
        initializer_range=0.1,
    )
    model = Qwen3NextForCausalLM(config)
    _remember(model)
    save(model.to(torch.bfloat16), model.lm_head.weight, folder)


def _remember(model: Any) -> None:
    import torch

    for layer in model.model.layers:
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.A_log.data = torch.linspace(*DECAYS, HEADS).log()
            layer.linear_attn.out_proj.weight.data *= OUT
