"""A tiny random model that both sides can load, and its sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck.bench.sides import Setup
from replaycheck.model.folder import SHIPPED_CONFIG, write_folder
from replaycheck.model.initial import initial_weights
from tests.tensors import one_thread as one_thread

CONFIG = replace(
    SHIPPED_CONFIG,
    hidden_size=32,
    intermediate_size=48,
    layer_kinds=("kda", "mla"),
    kda_head_dim=16,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=16,
)
TEXT = tuple(b"A register changes with each token; a cache is read again and never changes. " * 3)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "tiny"
    write_folder(folder, CONFIG, initial_weights(CONFIG, seed=3))
    return folder


@pytest.fixture
def setup(model: Path) -> Setup:
    return Setup("lab", model, "fp32", "cpu", 1, TEXT, "exact")
