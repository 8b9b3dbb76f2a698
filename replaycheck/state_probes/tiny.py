"""A model small enough for hundreds of requests: both kinds of layers, random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replaycheck.model.folder import SHIPPED_CONFIG, write_folder
from replaycheck.model.initial import initial_weights

__all__ = ["CONFIG", "GAIN", "write_tiny"]

# Keys of 32 in both kinds of layers: the lab's attention takes multiples of 16.
CONFIG = replace(
    SHIPPED_CONFIG,
    hidden_size=64,
    intermediate_size=96,
    layer_kinds=("kda", "kda", "mla", "kda"),
    kda_head_dim=64,
    kv_lora_rank=32,
    qk_nope_head_dim=16,
    qk_rope_head_dim=16,
    v_head_dim=32,
)
GAIN = 6.0
"""Trained matrices are larger than initial ones; with these, one rounding of a state shows in bf16 activations."""


def write_tiny(folder: Path, seed: int) -> None:
    """Write the model into a folder."""
    weights = initial_weights(CONFIG, seed=1 + seed)
    write_folder(folder, CONFIG, {name: w * GAIN if name.endswith("proj.weight") else w for name, w in weights.items()})
