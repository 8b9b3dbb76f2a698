"""Prefill whose beta and decay are activated before the kernel is called, as engines once did.

They pass through the dtype of activations on their way; decoding activates inside its kernel, in fp32. So a text that was
decoded and the same text prefilled again differ by more than the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.subjects.lab.kernels import OURS, KernelChoice, lab_kernels
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, StateKernel
from replaycheck_kernels.recipe import Recipe

__all__ = ["activated_outside"]


def activated_outside(choice: KernelChoice, recipe: Recipe) -> StateKernel:
    """Our chunk kernel under the recipe with both sites outside; its name says so. On a GPU this is the emulator in torch.

    Raises:
        UsageError: the kernels aren't ours; a compiled kernel activates where it activates.
    """
    if choice.spec != OURS:
        raise UsageError(f"--kernels {choice.spec}: only our kernels can activate outside; leave --kernels out")
    outside = replace(recipe, beta_site="outside", decay_site="outside")
    kernel = lab_kernels(choice, outside).kernels()["chunk"]

    def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], _: Recipe) -> KdaOutput:
        return kernel.forward(x, initial, rows, outside)

    return replace(kernel, name=f"{kernel.name}, activated outside", forward=forward)
