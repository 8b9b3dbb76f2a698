"""A tiny network of both layer kinds, and a directory with its weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from replaycheck.model.config import ModelConfig
from replaycheck.model.folder import SHIPPED_CONFIG, write_folder
from replaycheck.model.initial import initial_weights
from tests.tensors import one_thread as one_thread


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
