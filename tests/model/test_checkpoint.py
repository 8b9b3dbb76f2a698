"""Weights are opened only when they fit the configuration, and never as a pickle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from replaycheck.errors import UsageError
from replaycheck.model import digest, expected_tensors, load_weights, model_card, open_checkpoint, parameter_count
from replaycheck.model.config import ModelConfig

Weights = dict[str, torch.Tensor]
SHIPPED = Path(__file__).parents[2] / "models" / "kimi-linear-ascii-7m"
UP = "model.layers.0.mlp.up_proj.weight"


def change(folder: Path, edit: Callable[[Weights], object]) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    edit(weights)
    save_file(weights, file)


def test_weights_keep_their_types(tiny_folder: Path, tiny_config: ModelConfig) -> None:
    weights = load_weights(tiny_folder)
    assert weights.keys() == expected_tensors(tiny_config).keys()
    fp32 = {name for name, tensor in weights.items() if tensor.dtype == torch.float32}
    assert fp32 == {name for name in weights if name.endswith(("A_log", "dt_bias"))}
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32, torch.bfloat16}


def test_transformers_name_of_a_dense_mlp_is_understood(tiny_folder: Path) -> None:
    def rename(weights: Weights) -> None:
        weights[UP.replace(".mlp.", ".block_sparse_moe.")] = weights.pop(UP)

    change(tiny_folder, rename)
    assert UP in load_weights(tiny_folder)


def test_a_missing_tensor_is_named(tiny_folder: Path) -> None:
    change(tiny_folder, lambda weights: weights.pop(UP))
    with pytest.raises(UsageError, match=rf"model\.safetensors: lacks '{UP}'"):
        open_checkpoint(tiny_folder)


def test_many_missing_tensors_are_counted(tiny_folder: Path) -> None:
    change(tiny_folder, lambda weights: [weights.pop(name) for name in list(weights)[:10]])
    with pytest.raises(UsageError, match="and 6 more tensors"):
        open_checkpoint(tiny_folder)


def test_an_unknown_tensor_is_named(tiny_folder: Path) -> None:
    change(tiny_folder, lambda weights: weights.update(spare=torch.zeros(2)))
    with pytest.raises(UsageError, match="holds 'spare', unknown to"):
        open_checkpoint(tiny_folder)


def test_a_wrong_shape_shows_both(tiny_folder: Path) -> None:
    change(tiny_folder, lambda weights: weights.update({UP: torch.zeros(3, 16)}))
    with pytest.raises(UsageError, match=rf"'{UP}' has shape \[3, 16\], but config.json calls for \[24, 16\]"):
        open_checkpoint(tiny_folder)


def test_a_dtype_that_is_no_float_is_refused(tiny_folder: Path) -> None:
    change(tiny_folder, lambda weights: weights.update({UP: torch.zeros(24, 16, dtype=torch.int64)}))
    with pytest.raises(UsageError, match="has dtype 'I64'; allowed are BF16, F16, F32"):
        open_checkpoint(tiny_folder)


@pytest.mark.parametrize("kept", [0, 7, 8, 100, -1])
def test_a_truncated_file_is_refused(tiny_folder: Path, kept: int) -> None:
    file = tiny_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(UsageError, match=r"model\.safetensors: is truncated or not a safetensors file"):
        load_weights(tiny_folder)


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0]},
    ],
)
def test_a_header_that_lies_is_refused(tiny_folder: Path, entry: object) -> None:
    header = json.dumps({"x": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(8)
    (tiny_folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match="tensor 'x'"):
        open_checkpoint(tiny_folder)


def test_a_pickle_is_no_checkpoint(tiny_folder: Path) -> None:
    (tiny_folder / "model.safetensors").rename(tiny_folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"model\.safetensors: is missing; only one file in safetensors"):
        open_checkpoint(tiny_folder)


def test_a_file_is_no_model_directory(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        open_checkpoint(tiny_folder / "config.json")


def test_the_digest_follows_configuration_and_weights(tiny_folder: Path) -> None:
    before = digest(tiny_folder)
    assert digest(tiny_folder) == before
    (tiny_folder / "tokenizer.json").unlink()
    assert digest(tiny_folder) == before
    change(tiny_folder, lambda weights: weights[UP].neg_())
    changed = digest(tiny_folder)
    (tiny_folder / "config.json").write_text((tiny_folder / "config.json").read_text() + " ")
    assert len({before, changed, digest(tiny_folder)}) == 3


def test_the_card_of_the_shipped_model() -> None:
    card = model_card(SHIPPED)
    assert card["layers"] == "KKAKKKAK"
    assert card["parameters"] == 6_754_828 == parameter_count(open_checkpoint(SHIPPED).config)
    # Six KDA layers of 2 fp32 matrices 128 × 128 and 3 columns of 768 bf16 inputs.
    assert card["state_bytes"] == 6 * (2 * 128 * 128 * 4 + 3 * 768 * 2)
    assert card["dtypes"] == ("BF16", "F32")
    assert "bits per byte" in str(card["result"])


def test_a_directory_without_card_states_no_result(tiny_folder: Path) -> None:
    assert model_card(tiny_folder)["result"] is None


def test_reading_a_card_needs_no_torch() -> None:
    root = SHIPPED.parents[1]
    imports = "import sys, pathlib, replaycheck.model as m"
    code = f"{imports}; m.model_card(pathlib.Path({str(SHIPPED)!r})); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_shipped_files_are_small() -> None:
    assert max(file.stat().st_size for file in SHIPPED.iterdir()) <= 16 << 20
