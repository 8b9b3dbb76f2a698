"""RMS norms over the last axis, plain and gated: computed in fp32, with one rounding at the end."""

from __future__ import annotations

import torch
from torch import Tensor

from ..precision import Precision
from .launch import aligned, on_device, power_of_two, rounding, rows, sized

#: A row is one program's block of registers: 8 warps hold 64 values a thread.
_WIDEST = 16384


def rms_norm(x: Tensor, weight: Tensor, epsilon: float, precision: Precision) -> Tensor:
    """x / sqrt(mean x² + ε) · weight.

    Args:
        x: [..., D] fp32. weight: [D] fp32.

    Returns:
        The shape of x, fp32.

    Raises:
        ValueError: another dtype, device, shape or precision.
    """
    return _norm(x, None, weight, epsilon, precision)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, epsilon: float, precision: Precision) -> Tensor:
    """RMS norm over V times sigmoid(gate).

    Args:
        x, gate: [N, H, V] fp32. weight: [V] fp32.

    Returns:
        [N, H, V] fp32.
    """
    sized("gate", gate, *x.shape)
    return _norm(x, gate, weight, epsilon, precision)


def _norm(x: Tensor, gate: Tensor | None, weight: Tensor, epsilon: float, precision: Precision) -> Tensor:
    D, name = x.shape[-1], rounding(precision)
    on_device("weight", weight, torch.float32)
    sized("weight", weight, D)
    if D > _WIDEST:
        raise ValueError(f"norms of {D} elements; the kernel holds a row in registers and takes up to {_WIDEST}")
    flat, x_stride4 = rows("x", x.flatten(0, -2))
    beside, gate_stride4 = (flat, 0) if gate is None else rows("gate", gate.flatten(0, -2))
    out = x.new_empty(x.shape)
    if flat.shape[0]:
        from .kernels.norm import rms_norm_kernel

        rms_norm_kernel[(flat.shape[0],)](
            flat,
            beside,
            aligned(weight),
            out,
            x_stride4,
            gate_stride4,
            epsilon,
            D,
            power_of_two(D, 16, _WIDEST),
            gate is not None,
            name,
            num_warps=power_of_two(-(-D // 512), 1, 8),
        )
    return out
