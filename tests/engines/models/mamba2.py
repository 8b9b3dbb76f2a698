"""mamba2: four recurrent layers and nothing else, so there is no attention cache beside the state."""

from __future__ import annotations

from pathlib import Path

from .weights import HIDDEN, VOCABULARY, save

__all__ = ["write_mamba2"]


def write_mamba2(folder: Path) -> None:
    """0.5 M parameters."""
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM

    torch.manual_seed(0)
    config = Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=4,
        num_heads=8,
        head_dim=32,
        state_size=16,
        n_groups=1,
        expand=2,
        chunk_size=64,
        initializer_range=0.1,
        tie_word_embeddings=False,
    )
    model = Mamba2ForCausalLM(config)
    save(model, model.lm_head.weight, folder)
