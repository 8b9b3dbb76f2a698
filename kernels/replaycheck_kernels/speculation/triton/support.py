"""What the launchers refuse before a kernel starts: recipes and layouts that would silently run as others."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...precision import Precision, Rounding
from ...recipe import EXACT, Recipe

_FIXED = ("norm_epsilon", "decay_rule", "decay_bias", "decay_unit", "decay_at", "scale_times")
"""What these kernels have one form of; other values are faults for kernels in torch."""


def check(recipe: Recipe, inputs: Sequence[Tensor], pool: Tensor) -> None:
    """Raise ValueError for a recipe or a layout that these kernels would silently run as another one."""
    plain = recipe.recurrent_qk is Precision.FP32 and recipe.recurrent_beta is Precision.FP32
    if not plain or recipe.beta_site != "kernel" or recipe.decay_site != "kernel":
        raise ValueError(
            f"the Triton speculation kernels keep q, k, beta and decay in fp32 registers; recipe {recipe.name!r} doesn't"
        )
    other = [name for name in _FIXED if getattr(recipe, name) != getattr(EXACT, name)]
    if other:
        raise ValueError(
            f"the Triton speculation kernels have no other {', '.join(other)}; recipe {recipe.name!r} does: use torch"
        )
    if recipe.rounding is not Rounding.NEAREST:
        raise ValueError(f"the Triton speculation kernels round to nearest; recipe {recipe.name!r} doesn't")
    for x in inputs:
        if not x.is_contiguous():
            raise ValueError(f"inputs must be contiguous; one of shape {list(x.shape)} has strides {x.stride()}")
    check_slots(pool)


def check_slots(pool: Tensor) -> None:
    """A slot's state must be contiguous; slots and layers may be strided."""
    if not pool[0].is_contiguous():
        raise ValueError(f"a slot of the pool must be contiguous; {list(pool.shape)} has strides {pool.stride()}")


def check_plan(*tensors: Tensor) -> None:
    """Plan tensors are read one element a row: a strided view of a table would be read as another plan."""
    for x in tensors:
        if x.stride()[-1] != 1:
            raise ValueError(f"plan tensors must be contiguous; one of shape {list(x.shape)} has strides {x.stride()}")


def rsqrt(recipe: Recipe) -> bool:
    """Whether norms multiply by rsqrt; the reciprocal of a root isn't offered.

    Raises:
        ValueError: the recipe wants another form.
    """
    if recipe.recurrent_norm == "reciprocal":
        raise ValueError(
            f"the Triton speculation kernels divide or use rsqrt; recipe {recipe.name!r} asks for a reciprocal"
        )
    return recipe.recurrent_norm == "rsqrt"
