"""Top-k choices of a computation: replayed in another arithmetic, and how closely they hung on their values.

A router or an indexer chooses by values that carry rounding errors; where two are close enough, another rounding chooses
otherwise, and what is computed then differs by far more than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["replaying", "smallest_gap"]

_TOP_K = (torch.topk, Tensor.topk)


class _Gaps(TorchFunctionMode):
    """Attributes: smallest: the least relative difference between a last chosen and a first left-out value."""

    def __init__(self) -> None:
        super().__init__()
        self.smallest = math.inf

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _TOP_K:
            self._see(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _see(self, values: Tensor, k: int, dim: int = -1, *_: Any, **__: Any) -> None:
        if not 0 < k < values.shape[dim]:
            return
        first = values.double().topk(k + 1, dim).values
        chosen, left = first.narrow(dim, k - 1, 1), first.narrow(dim, k, 1)
        gap = ((chosen - left) / chosen.abs()).nan_to_num(nan=math.inf)
        self.smallest = min(self.smallest, float(gap.min()))


def smallest_gap(run: Callable[[], object]) -> float:
    """The least gap in what ``run`` computes; infinite if it chooses nothing."""
    gaps = _Gaps()
    with gaps:
        run()
    return gaps.smallest


class _Player(TorchFunctionMode):
    """Each top-k call gives the values at recorded indices."""

    def __init__(self, indices: list[Tensor]) -> None:
        super().__init__()
        self._left = iter(indices)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _TOP_K:
            return self._chosen(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _chosen(self, values: Tensor, k: int, dim: int = -1, *_: Any, **__: Any) -> Any:
        indices = next(self._left)
        return torch.return_types.topk((values.gather(dim, indices), indices))


@contextmanager
def replaying(indices: list[Tensor]) -> Iterator[None]:
    """Top-k calls inside choose ``indices``, call by call, as the same computation did elsewhere."""
    with _Player(indices):
        yield
