"""Which kernels there are, by name; the providers of the lab are dictionaries of them."""

from __future__ import annotations

from .chunk import CHUNK_EMULATOR
from .compiled import RECURRENT_CPU
from .contract import StateKernel
from .oracle import ORACLE_KERNEL
from .recipe import Recipe
from .recurrent import RECURRENT_TORCH

KERNELS: dict[str, StateKernel] = {
    kernel.name: kernel for kernel in (ORACLE_KERNEL, CHUNK_EMULATOR, RECURRENT_TORCH, RECURRENT_CPU)
}


def ours(recipe: Recipe, device: str) -> dict[str, StateKernel]:
    """Our kernel for each form: compiled on the CPU, torch on other devices, the oracle for the ``oracle`` recipe."""
    if recipe.name == "oracle":
        return {"chunk": ORACLE_KERNEL, "recurrent": ORACLE_KERNEL}
    return {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_CPU if device == "cpu" else RECURRENT_TORCH}
