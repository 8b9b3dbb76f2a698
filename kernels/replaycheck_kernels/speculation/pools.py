"""Slots of all layers: temporal states in the pool dtype, convolution windows in the activations' dtype.

New memory is NaN, so whatever reads a slot that nothing wrote shows at once; slot 0 is the null slot and stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Geometry:
    """L layers of HV value heads with states [V, K]; D convolution channels, h inputs of history."""

    layers: int
    heads: int
    value: int
    key: int
    channels: int
    history: int


@dataclass(frozen=True)
class Pools:
    """temporal: [L, S, HV, V, K]; conv: [L, S, E, D]."""

    temporal: Tensor
    conv: Tensor

    @classmethod
    def empty(
        cls,
        shape: Geometry,
        slots: int,
        columns: int,
        dtype: torch.dtype,
        conv_dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> Pools:
        """``slots`` slots (the null slot included) that nothing has written."""
        temporal = (shape.layers, slots, shape.heads, shape.value, shape.key)
        nan = float("nan")
        return cls(
            torch.full(temporal, nan, dtype=dtype, device=device),
            torch.full((shape.layers, slots, columns, shape.channels), nan, dtype=conv_dtype, device=device),
        )
