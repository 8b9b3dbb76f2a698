"""Our own kernels as a provider: the emulator and the recurrent forms, which run any recipe, and those in Triton."""

from __future__ import annotations

from pathlib import Path

import torch

from ..chunk import CHUNK_EMULATOR
from ..compiled import RECURRENT_CPU
from ..recurrent import RECURRENT_TORCH
from ..triton import kernels as triton
from .provider import Capabilities, ModelKind, Provider, ProviderKernel

_ANYWHERE = frozenset({"cpu", "cuda"})
_POOLS = (torch.float32, torch.bfloat16, torch.float16)


def provider(path: Path | None = None) -> Provider:
    """Chunk emulator, recurrent form compiled for the CPU, recurrent form in torch; ``path`` has no meaning here."""
    # Any width: nothing is tiled.
    can = Capabilities((), pool_dtypes=_POOLS, devices=_ANYWHERE, widest_key=1 << 20, widest_value=1 << 20)
    cpu = Capabilities((), pool_dtypes=_POOLS, devices=frozenset({"cpu"}), widest_key=1 << 20, widest_value=1 << 20)
    anywhere = [(CHUNK_EMULATOR, can), (RECURRENT_CPU, cpu), (RECURRENT_TORCH, can)]
    kernels = tuple(ProviderKernel(kind, kernel, able) for kind in ModelKind for kernel, able in anywhere)
    if not triton.runs_here():
        return Provider("ours", kernels, unavailable={kernel.name: triton.MISSING for kernel in triton.ALL})
    compiled = tuple(
        ProviderKernel(
            kind, kernel, triton.CAN, triton.ON_POOL[kernel.name], triton.claim, triton.EXPOSED.get(kernel.name)
        )
        for kind in ModelKind
        for kernel in triton.ALL
    )
    return Provider("ours", compiled + kernels)
