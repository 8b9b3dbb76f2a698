"""A cache of transformers: copied whole, how many tokens it says it holds, and the recurrent states in it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Shown", "cloned", "says", "shown"]


@dataclass(frozen=True)
class Shown:
    """The recurrent states of a cache.

    Attributes:
        layers: those that have one. temporal: [layers, heads, ., .] float32, as the family lays it out.
        conv: [layers, bytes]. dtype: as stored.
    """

    layers: tuple[int, ...]
    temporal: NDArray[np.float32]
    conv: NDArray[np.uint8]
    dtype: torch.dtype


def cloned(cache: Any) -> Any:
    """A copy that shares no tensor: the library updates states in place."""
    return copy.deepcopy(cache)


def says(cache: Any) -> int | None:
    """Tokens that the cache says it holds; None for one without attention, which doesn't count."""
    try:
        return int(cache.get_seq_length())
    except (AttributeError, ValueError):
        return None


def shown(cache: Any) -> Shown | None:
    """The states of the first row, if every recurrent layer has one of the same shape; else None."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for number, layer in enumerate(getattr(cache, "layers", ())):
        temporal, conv = _last(layer, "recurrent_states"), _last(layer, "conv_states")
        if temporal is not None and conv is not None and temporal.dim() == 4:
            found[number] = temporal[0], conv[0]
    if not found or len({(t.shape, c.shape) for t, c in found.values()}) > 1:
        return None
    states = [temporal for temporal, _ in found.values()]
    convs = [conv.contiguous().flatten().view(torch.uint8) for _, conv in found.values()]
    return Shown(
        tuple(found),
        torch.stack(states).float().cpu().numpy(),
        torch.stack(convs).cpu().numpy(),
        states[0].dtype,
    )


def _last(layer: Any, name: str) -> Tensor | None:
    """The one state of that kind; None if the layer has none, or several."""
    states = getattr(layer, name, None)
    held = list(states.values()) if isinstance(states, dict) else []
    return held[0] if len(held) == 1 and isinstance(held[0], Tensor) else None
