"""What a launch may assume of its arguments, so that one compiled kernel serves every number of rows and every view.

Triton compiles another kernel when a pointer isn't aligned to 16 bytes or an integer is 1 or a multiple of 16, and another
kernel may sum in another order. So rows are brought to 16 bytes here, and integers that depend on the batch are declared
``do_not_specialize``. Nothing waits for the device.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from ..precision import Precision

_ALIGNMENT = 16
_ROUNDS_TO = (Precision.FP32, Precision.BF16, Precision.FP16)


def power_of_two(n: int, low: int, high: int) -> int:
    """The smallest power of two that is at least n, within low … high."""
    return min(max(1 << (n - 1).bit_length(), low), high)


def rounding(precision: Precision) -> str:
    """The kernel's name of a rounding.

    Raises:
        ValueError: a precision that no dense kernel rounds to.
    """
    if precision not in _ROUNDS_TO:
        choices = ", ".join(_ROUNDS_TO)
        raise ValueError(f"dense kernels round to {choices}, not {precision}; use the torch layers for this recipe")
    return precision.value


def on_device(name: str, x: Tensor, *dtypes: torch.dtype) -> None:
    """Raises:
    ValueError: not on CUDA (or not in Triton's interpreter), or of another dtype.
    """
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f"{name} is on {x.device}; dense kernels take CUDA tensors (on the CPU: the torch layers)")
    if x.dtype not in dtypes:
        raise ValueError(f"{name} has dtype {x.dtype}; allowed: {', '.join(map(str, dtypes))}")


def sized(name: str, x: Tensor, *shape: int) -> None:
    """Raises:
    ValueError: another shape (−1: any size).
    """
    if x.dim() != len(shape) or any(want not in (-1, got) for got, want in zip(x.shape, shape, strict=True)):
        raise ValueError(f"{name} has shape {tuple(x.shape)}; needed: {shape}, −1 for any size")


def rows(name: str, x: Tensor) -> tuple[Tensor, int]:
    """x [N, D] fp32 with contiguous, aligned rows (copied where it isn't), and a quarter of the rows' distance.

    The kernel multiplies by 4 again, which tells the compiler that each row begins at 16 bytes.
    """
    on_device(name, x, torch.float32)
    sized(name, x, -1, -1)
    if x.stride(1) != 1 or x.stride(0) % 4 or x.data_ptr() % _ALIGNMENT:
        x = packed(x)
    return x, x.stride(0) // 4


def packed(x: Tensor) -> Tensor:
    """A copy [N, D] whose rows are multiples of four elements apart."""
    N, D = x.shape
    return x.new_empty((N, -(-D // 4) * 4))[:, :D].copy_(x)


def aligned(x: Tensor) -> Tensor:
    """x [...], contiguous and at 16 bytes; copied where it isn't."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % _ALIGNMENT else x
