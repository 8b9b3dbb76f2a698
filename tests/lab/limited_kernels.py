"""A provider with the gaps that real ones have: our kernels, with fewer snapshot sources and pool dtypes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotSource
from replaycheck_kernels.providers import Capabilities, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.recurrent import RECURRENT_TORCH

FINAL = frozenset({SnapshotSource.FINAL})
CAN = Capabilities(("vllm",), pool_dtypes=(torch.float32, torch.bfloat16), devices=frozenset({"cpu"}))


def by_size(x: KdaInputs) -> str:
    """A launch that decides by its size what it computes."""
    return "vllm" if x.sequences == 1 else "fla"


def factory() -> Provider:
    """No snapshot inside a chunk call, no fp16 pool, one recipe, no kernel for two forms at a time."""
    chunk = replace(CHUNK_EMULATOR, name="limited/chunk", sources=FINAL, recipes=frozenset({"vllm"}))
    recurrent = replace(RECURRENT_TORCH, name="limited/recurrent", recipes=frozenset({"vllm"}))
    kernels = (ProviderKernel(ModelKind.KDA, chunk, CAN), ProviderKernel(ModelKind.KDA, recurrent, CAN))
    return Provider("limited", kernels, version="2.0", tested=("1.0",))


def of_one(x: KdaInputs, *rest: Any) -> KdaOutput:
    """Refuses a pack."""
    assert x.sequences == 1
    return CHUNK_EMULATOR.forward(x, *rest)


def sized() -> Provider:
    """A chunk kernel with two claims, of which the launch chooses one."""
    chunk = replace(CHUNK_EMULATOR, name="sized/chunk", forward=of_one)
    recurrent = replace(RECURRENT_TORCH, name="sized/recurrent")
    can = replace(CAN, claims=("vllm", "fla"))
    return Provider(
        "sized",
        (ProviderKernel(ModelKind.KDA, chunk, can, choose=by_size), ProviderKernel(ModelKind.KDA, recurrent, can)),
    )
