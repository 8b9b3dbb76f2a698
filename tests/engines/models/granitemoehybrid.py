"""granitemoehybrid: three layers of Mamba2 and one of attention, dense."""

from __future__ import annotations

from pathlib import Path

from .weights import HIDDEN, VOCABULARY, save

__all__ = ["write_granitemoehybrid"]


def write_granitemoehybrid(folder: Path) -> None:
    """0.6 M parameters; attention without positions, so that order is known to the recurrent layers alone."""
    import torch
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    torch.manual_seed(0)
    config = GraniteMoeHybridConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=128,
        shared_intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["mamba", "mamba", "attention", "mamba"],
        num_local_experts=0,
        num_experts_per_tok=0,
        mamba_n_heads=8,
        mamba_d_head=32,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_expand=2,
        mamba_chunk_size=64,
        max_position_embeddings=4096,
        initializer_range=0.1,
        position_embedding_type="nope",
        tie_word_embeddings=False,
        logits_scaling=1.0,
    )
    model = GraniteMoeHybridForCausalLM(config)
    save(model, model.lm_head.weight, folder)
