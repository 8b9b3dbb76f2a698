"""Which kernels there are, by name; the providers of the lab are dictionaries of them."""

from __future__ import annotations

from .chunk import CHUNK_EMULATOR
from .compiled import RECURRENT_CPU, compiles
from .contract import StateKernel
from .oracle import ORACLE_KERNEL
from .recipe import Recipe
from .recurrent import RECURRENT_TORCH
from .triton import kernels as triton

KERNELS: dict[str, StateKernel] = {
    kernel.name: kernel for kernel in (ORACLE_KERNEL, CHUNK_EMULATOR, RECURRENT_TORCH, RECURRENT_CPU)
}
#: Kernels that can't be had here, with the reason.
UNAVAILABLE: dict[str, str] = {}
for _kernel in triton.ALL:
    if triton.runs_here():
        KERNELS[_kernel.name] = _kernel
    else:
        UNAVAILABLE[_kernel.name] = triton.MISSING


def ours(recipe: Recipe, device: str) -> dict[str, StateKernel]:
    """Our kernel for each form: compiled on the CPU; on CUDA in Triton, or in torch where Triton has no such recipe; the
    oracle for the ``oracle`` recipe."""
    if recipe.name == "oracle":
        return {"chunk": ORACLE_KERNEL, "recurrent": ORACLE_KERNEL}
    if device == "cpu":
        return {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_CPU if compiles(recipe) else RECURRENT_TORCH}
    return {
        "chunk": triton.CHUNK_TRITON if triton.compiles(triton.CHUNK_TRITON, recipe) else CHUNK_EMULATOR,
        "recurrent": triton.RECURRENT_TRITON if triton.compiles(triton.RECURRENT_TRITON, recipe) else RECURRENT_TORCH,
    }
