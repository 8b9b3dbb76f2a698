"""A tiny network of both layer kinds, and a directory with its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from replaycheck.model.config import ModelConfig
from replaycheck.model.folder import SHIPPED_CONFIG, write_folder
from replaycheck.model.initial import initial_weights


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors of a few kilobytes gain nothing from threads, and on a busy machine wait for each other's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_config() -> ModelConfig:
    return dataclasses.replace(
        SHIPPED_CONFIG,
        hidden_size=16,
        intermediate_size=24,
        layer_kinds=("kda", "mla", "kda"),
        kda_head_dim=8,
        kv_lora_rank=8,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=8,
    )


@pytest.fixture
def tiny_folder(tmp_path: Path, tiny_config: ModelConfig) -> Path:
    folder = tmp_path / "tiny"
    write_folder(folder, tiny_config, initial_weights(tiny_config, seed=1))
    return folder
