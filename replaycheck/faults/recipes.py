"""Faults of the arithmetic: recipe in, recipe out. Our kernels in torch run them all; compiled ones refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from replaycheck_kernels.recipe import Recipe

__all__ = ["RecipeFault", "with_fields"]

RecipeFault = Callable[[Recipe], Recipe]


def with_fields(**fields: Any) -> RecipeFault:
    """The recipe with other choices; see :class:`replaycheck_kernels.recipe.Recipe` for their names."""
    return lambda recipe: replace(recipe, **fields)
