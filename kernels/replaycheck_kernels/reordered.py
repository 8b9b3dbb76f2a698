"""The emulator evaluated in another way that fp32 allows, so that "another order of sums" is a number and not a guess.

Two kernels that round at the same points still differ: their fp32 sums run in another order, their exponentials are other
approximations. What reaches a rounding boundary in between moves by a unit, and what is computed from it moves, too. Running
the same recipe under one of these modes gives the share and the size of such differences at every intermediate.

* ``exact-sums``: every sum is accumulated in float64 and rounded once. The emulator's own fp32 sums are then alone to blame.
* ``hardware``: sums over halves and backward, and the fast functions that Triton compiles to (``hardware``): results of an
  exponential below 2^-126 are 0, and the softplus is ln(1 + e^y), whose sum is rounded at 1. The error of the exponential
  is drawn for each element. That of the logarithm is the largest there is, with one sign: tokens of a channel have like
  arguments, so their errors don't average out, and a cumulative decay drifts. (Measured on an H200: fla's G is off by 1.2e-6
  at mild decay, where independent draws gave 0.5e-6 and one sign gives 3.6e-6.)

No call of the emulator is changed: a TorchFunctionMode replaces the functions that it calls while the block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .hardware import EXP, LN, SMALLEST_NORMAL

WAYS = ("exact-sums", "hardware")

FACTOR = sqrt(5)
"""What a kernel may be apart from the emulator, in units of what ``exact-sums`` is. Tensor cores drop the low bits of a sum
where the emulator's addition rounds: uniform over a unit instead of half of one to either side, twice the rms. The two are
independent: √(1 + 2²)."""


class _Otherwise(TorchFunctionMode):
    """Calls of the listed functions go to others; inside those the mode is off."""

    def __init__(self, table: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._table = table

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._table.get(func, func)(*args, **(kwargs or {}))


def evaluated(way: str) -> TorchFunctionMode:
    """A context in which torch's sums and functions are evaluated in that way.

    Raises:
        ValueError: no such way.
    """
    if way == "exact-sums":
        return _Otherwise(
            {**_everywhere("sum", _wide_sum), **_everywhere("cumsum", _wide_cumsum), torch.bmm: _wide_bmm}
        )
    if way == "hardware":
        return _Hardware().mode()
    raise ValueError(f"unknown way {way!r}; choose one of {', '.join(WAYS)}")


def _everywhere(name: str, function: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """As a function of torch and as a method."""
    return {getattr(torch, name): function, getattr(Tensor, name): function}


def _wide_bmm(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a.double(), b.double()).to(a.dtype)


def _wide_sum(x: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    return x.double().sum(*rest, **kwargs).to(x.dtype) if x.is_floating_point() else x.sum(*rest, **kwargs)


def _wide_cumsum(x: Tensor, dim: int) -> Tensor:
    return x.double().cumsum(dim).to(x.dtype)


class _Hardware:
    """Errors of the exponentials are drawn from a seeded generator, uniform up to their bound."""

    def __init__(self) -> None:
        self._draws = torch.Generator().manual_seed(0)

    def mode(self) -> TorchFunctionMode:
        table: dict[Any, Callable[..., Any]] = {torch.bmm: _halves_bmm, torch.log1p: self.log1p}
        table |= _everywhere("sum", _backward_sum) | _everywhere("cumsum", _stepped_cumsum)
        for name in ("exp", "exp2"):
            table |= _everywhere(name, self._noisy(getattr(torch, name)))
        return _Otherwise(table | _everywhere("sigmoid", self.sigmoid))

    def _noisy(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def fast(x: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
            found = function(x, *rest, **kwargs) * (1 + EXP * self._uniform(x))
            return torch.where(found < SMALLEST_NORMAL, 0.0, found)

        return fast

    def _uniform(self, x: Tensor) -> Tensor:
        return (2 * torch.rand(x.shape, generator=self._draws, dtype=x.dtype) - 1).to(x.device)

    def log1p(self, x: Tensor) -> Tensor:
        found = torch.log(1 + x)
        return found + LN * torch.clamp(found / log(2), min=1.0)

    def sigmoid(self, x: Tensor) -> Tensor:
        return 1 / (1 + torch.exp(-x) * (1 + EXP * self._uniform(x)))


def _halves_bmm(a: Tensor, b: Tensor) -> Tensor:
    half = a.shape[2] // 2
    return torch.bmm(a[:, :, half:].flip(2), b[:, half:].flip(1)) + torch.bmm(a[:, :, :half], b[:, :half])


def _backward_sum(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if dim is None or not x.is_floating_point():
        return x.sum() if dim is None else x.sum(dim, keepdim=keepdim)
    half = x.shape[dim] // 2
    rest, begin = (
        part.sum(dim, keepdim=keepdim)
        for part in (x.narrow(dim, half, x.shape[dim] - half).flip(dim), x.narrow(dim, 0, half))
    )
    return rest + begin


def _stepped_cumsum(x: Tensor, dim: int) -> Tensor:
    """A scan in log2 n steps, as a thread block does it."""
    total, step = x, 1
    while step < x.shape[dim]:
        moved = torch.cat(
            [torch.zeros_like(total.narrow(dim, 0, step)), total.narrow(dim, 0, x.shape[dim] - step)], dim
        )
        total, step = total + moved, 2 * step
    return total
