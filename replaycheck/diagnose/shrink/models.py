"""Models with fewer layers or heads, written as folders: a case that needs one layer runs eight times as fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from replaycheck.model.checkpoint import load_weights
from replaycheck.model.config import ModelConfig, load_config
from replaycheck.model.folder import write_folder
from replaycheck.model.tensors import layer_prefix

__all__ = ["reduced"]


def reduced(model: Path, layers: Sequence[int], heads: Sequence[int], folder: Path) -> Path:
    """Write the model with these layers, and these heads in its recurrent layers, into ``folder``; its path.

    A folder that is there is taken as it is: what it holds follows from its name, which the caller chooses.
    """
    if not folder.is_dir():
        config, weights = load_config(model), load_weights(model)
        smaller = replace(
            config, layer_kinds=tuple(config.layer_kinds[layer] for layer in layers), kda_heads=len(heads)
        )
        write_folder(folder, smaller, _tensors(weights, config, layers, heads))
    return folder


def _tensors(
    weights: dict[str, Tensor], config: ModelConfig, layers: Sequence[int], heads: Sequence[int]
) -> dict[str, Tensor]:
    found = {name: tensor for name, tensor in weights.items() if not name.startswith("model.layers.")}
    for number, layer in enumerate(layers):
        old, new = layer_prefix(layer), layer_prefix(number)
        kda = config.layer_kinds[layer] == "kda"
        for name, tensor in weights.items():
            if name.startswith(old):
                part = name.removeprefix(old)
                found[new + part] = _heads(part, tensor, config, heads) if kda else tensor
    return found


def _heads(part: str, tensor: Tensor, config: ModelConfig, heads: Sequence[int]) -> Tensor:
    """What the heads have of a tensor of a recurrent layer; what has no heads stays whole."""
    chosen = torch.tensor(heads)
    wide = (chosen[:, None] * config.kda_head_dim + torch.arange(config.kda_head_dim)).flatten()
    if part == "self_attn.A_log":
        return tensor.flatten()[chosen].view(1, 1, -1, 1)
    if part == "self_attn.b_proj.weight":
        return tensor[chosen]
    if part == "self_attn.o_proj.weight":
        return tensor[:, wide]
    split = ("q_proj", "k_proj", "v_proj", "q_conv1d", "k_conv1d", "v_conv1d", "f_b_proj", "g_b_proj")
    if part == "self_attn.dt_bias" or part.removeprefix("self_attn.").removesuffix(".weight") in split:
        return tensor[wide]
    return tensor
