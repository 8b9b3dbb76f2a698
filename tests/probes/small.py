"""A model with KDA layers of the shipped heads, so that their learnt decays fit a kernel probe, and little else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replaycheck.model.folder import SHIPPED_CONFIG, write_folder
from replaycheck.model.initial import initial_weights

SMALL = replace(
    SHIPPED_CONFIG,
    hidden_size=32,
    intermediate_size=32,
    layer_kinds=("kda", "mla"),
    kv_lora_rank=16,
    qk_nope_head_dim=16,
    qk_rope_head_dim=16,
    v_head_dim=16,
)


def write_small(folder: Path, *layer_kinds: str) -> Path:
    """Write it with these layers, and return the folder."""
    config = replace(SMALL, layer_kinds=layer_kinds)
    write_folder(folder, config, initial_weights(config, seed=3))
    return folder
