"""Opening a model directory: configuration, weights checked against it, and its digest.

Only safetensors is read, never a pickle. Shapes and byte ranges are compared with the configuration
from the header alone, so nothing is allocated for a file that could not be used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replaycheck.errors import UsageError
from replaycheck.model.config import CONFIG_FILE, ModelConfig, load_config
from replaycheck.model.header import StoredTensor, read_header
from replaycheck.model.tensors import TensorSpec, canonical_name, expected_tensors

if TYPE_CHECKING:
    import torch

__all__ = ["WEIGHTS_FILE", "Checkpoint", "digest", "load_weights", "open_checkpoint"]

WEIGHTS_FILE: Final = "model.safetensors"

# 128 bits: a label of identity, not a signature.
_DIGEST_BYTES: Final = 16
_READ_BYTES: Final = 1 << 20
_NAMES_SHOWN: Final = 4


@dataclass(frozen=True)
class Checkpoint:
    """A model directory whose weights fit its configuration. ``tensors`` is keyed by published name."""

    folder: Path
    config: ModelConfig
    tensors: Mapping[str, StoredTensor]

    @property
    def weights(self) -> Path:
        """The safetensors file."""
        return self.folder / WEIGHTS_FILE


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in the directory ``path``, checked; no weight is read yet.

    Raises :class:`UsageError` that names the file and what is missing, extra or of the wrong shape.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: is not a directory; give a model directory with {CONFIG_FILE} and {WEIGHTS_FILE}")
    config = load_config(path)
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise UsageError(f"{weights}: is missing; only one file in safetensors format is read, so convert or merge")
    stored = {canonical_name(name): tensor for name, tensor in read_header(weights).items()}
    _check(weights, stored, expected_tensors(config))
    return Checkpoint(path, config, stored)


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """All weights of the directory ``path`` by published name, on the CPU, in their stored dtype.

    Raises :class:`UsageError` as :func:`open_checkpoint` does.
    """
    checkpoint = open_checkpoint(path)
    from safetensors.torch import load_file

    return {canonical_name(name): tensor for name, tensor in load_file(checkpoint.weights).items()}


def digest(path: Path) -> str:
    """BLAKE2b (128 bits, hex) over ``config.json`` and the weights: the model's identity in a recording."""
    state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        _hash_file(state, path / name)
    return state.hexdigest()


def _hash_file(state: hashlib.blake2b, file: Path) -> None:
    """Length first, so that bytes can't move from one file to the next unnoticed."""
    try:
        state.update(file.stat().st_size.to_bytes(8, "little"))
        with file.open("rb") as stream:
            while block := stream.read(_READ_BYTES):
                state.update(block)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); give a complete model directory") from None


def _check(file: Path, stored: Mapping[str, StoredTensor], wanted: Mapping[str, TensorSpec]) -> None:
    if missing := [name for name in wanted if name not in stored]:
        raise UsageError(f"{file}: lacks {_listed(missing)}, which {CONFIG_FILE} calls for; export it again")
    if extra := [name for name in stored if name not in wanted]:
        raise UsageError(
            f"{file}: holds {_listed(extra)}, unknown to {CONFIG_FILE}; the two files do not belong together"
        )
    for name, spec in wanted.items():
        if stored[name].shape != spec.shape:
            raise UsageError(
                f"{file}: tensor {name!r} has shape {list(stored[name].shape)}, but {CONFIG_FILE} calls for "
                f"{list(spec.shape)}; the two files do not belong together"
            )


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    rest = len(names) - _NAMES_SHOWN
    return f"{shown} and {rest} more tensors" if rest > 0 else shown
