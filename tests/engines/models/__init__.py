"""Tiny random models of recurrent and hybrid architectures, written as checkpoints that vLLM's CPU build loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from .falcon_h1 import write_falcon_h1
from .granitemoehybrid import write_granitemoehybrid
from .mamba2 import write_mamba2
from .qwen3_next import write_qwen3_next

__all__ = ["WRITERS"]

WRITERS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "granitemoehybrid": write_granitemoehybrid,
        "falcon_h1": write_falcon_h1,
        "mamba2": write_mamba2,
        "qwen3_next": write_qwen3_next,
    }
)
