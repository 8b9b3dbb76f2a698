"""Faults of the one cast of a store: [..., V, K] fp32 and the pool's dtype in, a tensor of that dtype out."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["flushing", "int8", "scaled", "truncating", "via_bf16", "via_fp16"]

_LOWEST_NORMAL = 2.0**-14  # of fp16


def via_bf16(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F2: a cast that passes through bf16, whatever its target."""
    return state.to(torch.bfloat16).to(dtype)


def via_fp16(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F3: a cast that passes through fp16."""
    return state.to(torch.float16).to(dtype)


def flushing(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F5: what would be subnormal in fp16 becomes zero."""
    found = state.to(dtype)
    return (
        torch.where(state.abs() < _LOWEST_NORMAL, torch.zeros_like(found), found) if dtype is torch.float16 else found
    )


def scaled(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F4: the state is kept 2^24 times as large. A power of two loses nothing but where fp16's range ends, at 65,504."""
    return ((state * 2.0**24).to(dtype).to(state.dtype) / 2.0**24).to(dtype)


def truncating(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F6, B104: low bits are cut off, so that every error points to zero."""
    if dtype is torch.float32:
        return state.to(dtype)
    nearest = state.to(dtype)
    return _one_less(nearest, nearest.to(state.dtype).abs() > state.abs())


def _one_less(x: Tensor, where: Tensor) -> Tensor:
    """The next number of a 16-bit dtype toward zero: one less in the bits."""
    bits = x.contiguous().view(torch.int16)
    return torch.where(where, bits - 1, bits).view(x.dtype)


def int8(state: Tensor, dtype: torch.dtype) -> Tensor:
    """F14, B85: eight bits a value, one scale a head and channel: the largest of its column over 127."""
    largest = state.abs().amax(-2, keepdim=True) if state.ndim > 1 else state.abs().max()
    scale = largest.clamp(min=1e-30) / 127
    return ((state / scale).round() * scale).to(dtype)
