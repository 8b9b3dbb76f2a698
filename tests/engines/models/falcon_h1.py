"""falcon_h1: Mamba2 and attention side by side in each of two layers."""

from __future__ import annotations

from pathlib import Path

from .weights import HIDDEN, VOCABULARY, save

__all__ = ["write_falcon_h1"]


def write_falcon_h1(folder: Path) -> None:
    """0.5 M parameters."""
    import torch
    from transformers import FalconH1Config, FalconH1ForCausalLM

    torch.manual_seed(0)
    config = FalconH1Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        mamba_d_ssm=256,
        mamba_n_heads=8,
        mamba_d_head=32,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_chunk_size=64,
        max_position_embeddings=4096,
        initializer_range=0.1,
    )
    model = FalconH1ForCausalLM(config)
    save(model, model.lm_head.weight, folder)
