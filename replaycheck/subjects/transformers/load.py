"""transformers, imported late and with what would change its results kept out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import torch

from replaycheck.errors import EngineEnvironmentError, UsageError, choices
from replaycheck.names import did_you_mean

__all__ = ["CACHE_NAMES", "DTYPES", "Loaded", "import_transformers", "load_model"]

DTYPES: Mapping[str, torch.dtype] = MappingProxyType({"fp32": torch.float32, "bf16": torch.bfloat16})

CACHE_NAMES = ("past_key_values", "cache_params", "state")
"""The argument that takes a cache, and the field of the output that gives it back, by family."""

_MISSING = "{} needs transformers, which can't be imported ({}); pip install 'replaycheck[models]'"


def import_transformers(who: str, device: str = "cpu") -> ModuleType:
    """The library, quiet and offline.

    On a CPU an installed ``fla`` would be preferred to transformers' own torch code and find no GPU, so importing it fails
    from here on, as if it weren't installed.

    Args:
        who: begins the message if it's missing.

    Raises:
        EngineEnvironmentError: it isn't installed, or doesn't work.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("TRITON_INTERPRET", None)
    if device == "cpu":
        sys.modules["fla"] = None  # type: ignore[assignment]
    try:
        transformers = import_module("transformers")
    except ImportError as error:
        raise EngineEnvironmentError(_MISSING.format(who, error)) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@dataclass(frozen=True)
class Loaded:
    """A model and what is known of it. cache_name: the argument of its forward that takes a cache."""

    module: Any
    folder: Path
    cache_name: str
    version: str

    @property
    def vocabulary(self) -> int:
        return int(self.module.config.get_text_config(decoder=True).vocab_size)


def load_model(folder: Path, dtype: str, device: str) -> Loaded:
    """The causal language model of a folder, with eager attention, for inference.

    Nothing is downloaded, no code of the folder is run, and no pickle is read.

    Args:
        dtype: a key of :data:`DTYPES`.

    Raises:
        UsageError: there is no such folder, or no model that the library knows.
        EngineEnvironmentError: the library isn't installed.
    """
    transformers = import_transformers("--subject transformers", device)
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"--model {folder}: no config.json there; give a local folder with config.json and *.safetensors"
        )
    if dtype not in DTYPES:
        raise UsageError(
            f"--subject-option dtype={dtype}: unknown{did_you_mean(dtype, DTYPES)}; choose {choices(DTYPES)}"
        )
    try:
        module = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=DTYPES[dtype],
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="eager",
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"--model {folder}: transformers {transformers.__version__} can't load it: {reason}") from None
    parameters = signature(module.forward).parameters
    cache_name = next((name for name in CACHE_NAMES if name in parameters), None)
    if cache_name is None:
        raise UsageError(f"--model {folder}: its forward takes no cache; there is nothing to restore")
    return Loaded(module.to(device).eval(), folder, cache_name, str(transformers.__version__))
