"""Which cast turns a live state into the one that was stored: hypotheses on the bits, each named by its code.

Every function takes the fp32 state before the store and the pool's dtype and returns the fp32 values that such a store would
leave. A hypothesis counts only if it explains every element and the right cast doesn't.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.lab.pool import TORCH_DTYPE

__all__ = ["CASTS", "explained_by", "quantised"]

_LOW: Final = {PoolDtype.BF16: 16, PoolDtype.FP16: 13, PoolDtype.FP32: 0}
"""Mantissa bits that fp32 has more than the dtype."""
_LEVELS: Final = 255
"""Of a signed byte without its lowest value."""


def _once(live: Tensor, pool: PoolDtype) -> Tensor:
    return live.to(TORCH_DTYPE[pool]).float()


def _via(dtype: torch.dtype) -> Callable[[Tensor, PoolDtype], Tensor]:
    return lambda live, pool: _once(live.to(dtype).float(), pool)


def _via_tf32(live: Tensor, pool: PoolDtype) -> Tensor:
    """10 mantissa bits, to nearest with ties away, as a conversion instruction does; the pool's cast after it."""
    bits = live.view(torch.int32)
    return _once(((bits + 0x1000) & ~0x1FFF).view(torch.float32), pool)


def _truncated(live: Tensor, pool: PoolDtype) -> Tensor:
    """Toward zero. An fp32 pool is truncated to bf16's bits, the only narrower ones that a state has."""
    low = _LOW[pool] or _LOW[PoolDtype.BF16]
    return (live.view(torch.int32) & ~((1 << low) - 1)).view(torch.float32)


def _flushed(live: Tensor, pool: PoolDtype) -> Tensor:
    """Subnormal numbers of the pool's dtype become zero."""
    stored = _once(live, pool)
    return torch.where(stored.abs() < torch.finfo(TORCH_DTYPE[pool]).tiny, torch.zeros_like(stored), stored)


CASTS: Final[Mapping[str, Mapping[str, Callable[[Tensor, PoolDtype], Tensor]]]] = MappingProxyType(
    {
        "RC101": {"bf16": _via(torch.bfloat16)},
        "RC103": {"fp16": _via(torch.float16), "tf32": _via_tf32},
        "RC104": {"cutting low bits": _truncated},
        "RC107": {"flushing subnormal numbers": _flushed},
    }
)
"""By code: what a store did, and what it leaves."""


def explained_by(live: Tensor, stored: Tensor, pool: PoolDtype) -> tuple[str, str] | None:
    """Code and words of the store that gives ``stored`` from ``live`` (fp32 [...]), or None.

    Two hypotheses with the same result on these elements explain nothing: the answer is then None.
    """
    if _same(_once(live, pool), stored):
        return None
    found = [
        (code, words, cast(live, pool))
        for code, casts in CASTS.items()
        for words, cast in casts.items()
        if _same(cast(live, pool), stored)
    ]
    if len({code for code, _, _ in found}) == 1:
        return found[0][:2]
    if not found and _overflows(live, stored, pool):
        return "RC106", "overflow"
    if not found and quantised(stored):
        return "RC105", "quantising"
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def _overflows(live: Tensor, stored: Tensor, pool: PoolDtype) -> bool:
    """Infinite are the elements from some size on (a state may be kept scaled), and the others are near enough."""
    wrong = torch.isinf(stored)
    if not bool(wrong.any()) or bool(wrong.all()) or bool(torch.isnan(stored).any()) or not torch.isfinite(live).all():
        return False
    size, right = live.abs(), _once(live, pool)
    near = (right - stored)[~wrong].abs() <= size[~wrong] * torch.finfo(TORCH_DTYPE[pool]).eps + torch.finfo(
        TORCH_DTYPE[pool]
    ).tiny
    return bool((size[wrong] >= size[~wrong].amax()).all()) and bool(near.all())


def quantised(stored: Tensor) -> bool:
    """Whether each row (last axis, K) of a state holds few levels that are multiples of one step.

    A row of K honest fp32 values has as many levels as values; K must exceed the levels for this to say anything, so whole
    heads with one step are looked at, too.
    """
    if not torch.isfinite(stored).all():
        return False
    return any(_stepped(stored.flatten(axis)) for axis in (-1, -2)) or _stepped(stored.transpose(-1, -2).flatten(-1))


def _stepped(rows: Tensor) -> bool:
    """Whether in each row [..., n] values are within 1 % of whole multiples of largest/127."""
    step = rows.abs().amax(-1, keepdim=True) / ((_LEVELS - 1) / 2)
    if not bool((step > 0).any()):
        return False
    whole = rows / step.clamp_min(torch.finfo(torch.float32).tiny)
    return bool(((whole - whole.round()).abs() < 0.01).all())
