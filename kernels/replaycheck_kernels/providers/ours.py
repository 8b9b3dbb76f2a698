"""Our own kernels as a provider: the emulator and the recurrent forms, which run any recipe."""

from __future__ import annotations

from pathlib import Path

import torch

from ..chunk import CHUNK_EMULATOR
from ..compiled import RECURRENT_CPU
from ..recurrent import RECURRENT_TORCH
from .provider import Capabilities, ModelKind, Provider, ProviderKernel

_ANYWHERE = frozenset({"cpu", "cuda"})
_POOLS = (torch.float32, torch.bfloat16, torch.float16)


def provider(path: Path | None = None) -> Provider:
    """Chunk emulator, recurrent form compiled for the CPU, recurrent form in torch; ``path`` has no meaning here."""
    # Any width: nothing is tiled.
    can = Capabilities((), pool_dtypes=_POOLS, devices=_ANYWHERE, widest_key=1 << 20, widest_value=1 << 20)
    cpu = Capabilities((), pool_dtypes=_POOLS, devices=frozenset({"cpu"}), widest_key=1 << 20, widest_value=1 << 20)
    kernels = [(CHUNK_EMULATOR, can), (RECURRENT_CPU, cpu), (RECURRENT_TORCH, can)]
    return Provider("ours", tuple(ProviderKernel(kind, kernel, able) for kind in ModelKind for kernel, able in kernels))
