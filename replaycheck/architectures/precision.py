"""Run a model in float64 throughout, as the oracle that tells a fault from rounding.

A model that was converted to float64 still computes parts in float32, where its code says so (norms, recurrent states,
softmax). :class:`Double` gives float64 wherever less is asked for, so that rounding shrinks by 2^29 and a fault doesn't. It
also breaks ties of top-k by index, so that two computations of the same values choose the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Double", "double", "running_in_double"]

_LOW = (torch.float32, torch.bfloat16, torch.float16)
_CASTS = (Tensor.float, Tensor.bfloat16, Tensor.half)
_TOP_K = (torch.topk, Tensor.topk)


class Double(TorchFunctionMode):
    """Everything that torch is asked to compute in a lower precision is computed in float64.

    Args:
        stable: break ties of top-k by index.

    Attributes:
        chosen: the indices that each top-k call chose, in order.
    """

    def __init__(self, stable: bool = True) -> None:
        super().__init__()
        self.stable = stable
        self.chosen: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raised = {name: _raised(value) for name, value in (kwargs or {}).items()}
        if func in _CASTS:
            return args[0].double()
        if func in _TOP_K and self.stable:
            return self._top_k(*args, **raised)
        return func(*map(_raised, args), **raised)

    def _top_k(self, values: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """The k first of a stable sort."""
        ordered, indices = torch.sort(values, dim=dim, descending=largest, stable=True)
        self.chosen.append(indices.narrow(dim, 0, k))
        return torch.return_types.topk((ordered.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


def double(module: torch.nn.Module) -> torch.nn.Module:
    """A copy in float64."""
    return copy.deepcopy(module).double()


@contextmanager
def running_in_double(stable: bool = True) -> Iterator[Double]:
    """What runs inside computes in float64; new tensors are float64, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Double(stable) as mode:
            yield mode
    finally:
        torch.set_default_dtype(before)


def _raised(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LOW else value
