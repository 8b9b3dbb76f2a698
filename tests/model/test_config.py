"""A configuration is read in either spelling, and each fault names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaycheck.errors import UsageError
from replaycheck.model.config import ModelConfig, load_config
from replaycheck.model.folder import SHIPPED_CONFIG, config_json

SHIPPED = Path(__file__).parents[2] / "models" / "kimi-linear-ascii-7m"


def write(folder: Path, **changes: object) -> Path:
    """The shipped configuration with changes; ``...`` deletes a key."""
    values = config_json(SHIPPED_CONFIG) | changes
    file = folder / "config.json"
    file.write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))
    return file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert load_config(write(tmp_path)) == SHIPPED_CONFIG
    assert load_config(tmp_path) == SHIPPED_CONFIG


def test_the_shipped_file_is_the_shipped_configuration() -> None:
    assert load_config(SHIPPED) == SHIPPED_CONFIG


def test_the_keys_of_transformers_are_enough(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, linear_attn_config=...)) == SHIPPED_CONFIG


def test_the_published_keys_are_enough(tmp_path: Path) -> None:
    file = write(tmp_path, layer_types=..., linear_num_heads=..., linear_head_dim=..., linear_conv_kernel_dim=...)
    assert load_config(file) == SHIPPED_CONFIG


def test_layers_count_from_zero_here_and_from_one_in_the_file() -> None:
    assert (SHIPPED_CONFIG.kda_layers, SHIPPED_CONFIG.mla_layers) == ((0, 1, 3, 4, 5, 7), (2, 6))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": ...}, "'hidden_size' is missing; it must be an integer"),
        ({"hidden_size": "256"}, "'hidden_size' is '256'"),
        ({"hidden_size": True}, "'hidden_size' is True"),
        ({"hidden_size": 1 << 40}, "from 1 to"),
        ({"model_type": "qwen3_next"}, "'model_type' is 'qwen3_next'; allowed: 'kimi_linear'"),
        ({"rms_norm_eps": 0}, "'rms_norm_eps' is 0"),
        ({"q_lora_rank": 64}, "'q_lora_rank' is 64; allowed: None"),
        ({"mla_use_nope": False}, "'mla_use_nope' is False"),
        ({"num_key_value_heads": 1}, "'num_key_value_heads' is 1; allowed: 2"),
        ({"eos_token_id": 144}, "'eos_token_id' is 144"),
        ({"num_experts": 4, "first_k_dense_replace": 1}, "'first_k_dense_replace' is 1; with experts"),
        ({"linear_attn_config": []}, r"'linear_attn_config' is \[\]; it must be an object"),
        ({"linear_attn_config": {"kda_layers": [1, 2]}}, "'linear_attn_config.full_attn_layers' is missing"),
        ({"num_hidden_layers": 9}, "must name each layer from 1 to 9 exactly once"),
        ({"linear_attn_config": ..., "layer_types": ["mamba"] * 8}, "'layer_types' is"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_config(write(tmp_path, **changes))
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "holds a list"),
        (b"\xff{}", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b" " * (2 << 20), "at most 1048576"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        load_config(tmp_path)


def test_a_directory_without_configuration(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config.json: cannot be read \(No such file"):
        load_config(tmp_path)


def test_widths_that_follow(tiny_config: ModelConfig) -> None:
    assert (tiny_config.kda_width, tiny_config.qk_head_dim, tiny_config.num_layers) == (16, 12, 3)
