"""The server's options, under llama-server's own names, for the server that the package ``xllamacpp`` runs in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean

__all__ = ["OPTIONS", "ServerOptions", "Value", "apply"]

Value = bool | int | float | str
Setter = Callable[[Any, Any, Any], None]
"""Takes the package, its parameters and the value."""


def _attribute(name: str) -> Setter:
    def put(package: Any, params: Any, value: Any) -> None:
        setattr(params, name, value)

    return put


def _enumerated(name: str, enum: str, prefix: str) -> Setter:
    def put(package: Any, params: Any, value: Any) -> None:
        setattr(params, name, getattr(getattr(package, enum), prefix + str(value).upper()))

    return put


def _threads(package: Any, params: Any, value: Any) -> None:
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = value


def _flash_attention(package: Any, params: Any, value: Any) -> None:
    name = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[value]
    params.flash_attn_type = getattr(package.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{name}")


def _speculation(package: Any, params: Any, value: Any) -> None:
    name = str(value).replace("-", "_").upper()
    params.speculative.types = [getattr(package.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{name}")]


OPTIONS: Mapping[str, Setter] = MappingProxyType(
    {
        "ctx-size": _attribute("n_ctx"),
        "parallel": _attribute("n_parallel"),
        "batch-size": _attribute("n_batch"),
        "ubatch-size": _attribute("n_ubatch"),
        "threads": _threads,
        "ctx-checkpoints": _attribute("n_ctx_checkpoints"),
        "checkpoint-min-step": _attribute("checkpoint_min_step"),
        "cache-prompt": _attribute("cache_prompt"),
        "cache-ram": _attribute("cache_ram_mib"),
        "cache-reuse": _attribute("n_cache_reuse"),
        "cache-idle-slots": _attribute("cache_idle_slots"),
        "slot-prompt-similarity": _attribute("slot_prompt_similarity"),
        "slot-save-path": _attribute("slot_save_path"),
        "kv-unified": _attribute("kv_unified"),
        "context-shift": _attribute("ctx_shift"),
        "chat-template": _attribute("chat_template"),
        "swa-full": _attribute("swa_full"),
        "flash-attn": _flash_attention,
        "cache-type-k": _enumerated("cache_type_k", "ggml_type", "GGML_TYPE_"),
        "cache-type-v": _enumerated("cache_type_v", "ggml_type", "GGML_TYPE_"),
        "spec-type": _speculation,
        "verbosity": _attribute("verbosity"),
    }
)


@dataclass(frozen=True)
class ServerOptions:
    """A model and options. ``values`` overrides the defaults of :data:`BASE`."""

    model: Path
    values: Mapping[str, Value] = field(default_factory=dict)

    def plain(self) -> dict[str, Value]:
        """For JSON. Raises UsageError for a name that the server doesn't know."""
        unknown = [name for name in self.values if name not in OPTIONS]
        if unknown:
            raise UsageError(
                f"llama.cpp's server has no option {unknown[0]!r}{did_you_mean(unknown[0], OPTIONS)}; "
                f"choose {choices(sorted(OPTIONS))}"
            )
        return {**BASE, **self.values}


BASE: Mapping[str, Value] = MappingProxyType(
    {
        "ctx-size": 4096,
        "parallel": 2,
        # One thread, and attention in fp32 without the other code path for single tokens: what is left of noise is 1e-5 nat.
        "threads": 1,
        "flash-attn": "off",
        "cache-type-k": "f32",
        "cache-type-v": "f32",
        # Errors only.
        "verbosity": 1,
    }
)


def apply(package: Any, model: str, values: Mapping[str, Value]) -> Any:
    """The package's parameters for a loopback server on a free port."""
    params = package.CommonParams()
    params.model.path = model
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup = params.fit_params = False
    for name, value in values.items():
        OPTIONS[name](package, params, value)
    return params
