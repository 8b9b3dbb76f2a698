"""Slots copied by plan, all layers at once: the bytes of a temporal state, or a convolution window from an offset on.

Sources and destinations are tensors, so one captured graph serves every plan. A copy reads everything before it writes:
within one call a source may be a destination of another pair without harm here, but kernels that run pairs side by side
need plans whose destinations are no other pair's sources.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .commit import NULL


@dataclass(frozen=True)
class CopyPlan:
    """P pairs, all [P] int64 on the device.

    Attributes:
        source, destination: slots; a pair with a NULL slot on either side does nothing.
        offset: first column of the convolution window that is copied, 0 for the whole of a plain window.
    """

    source: Tensor
    destination: Tensor
    offset: Tensor


def copy_temporal(source: Tensor, destination: Tensor, plan: CopyPlan) -> None:
    """Copy states between pools [L, S, HV, V, K] of one dtype; in place, byte for byte."""
    _check(source, destination)
    target = _target(plan)
    real = (target > NULL).view(1, -1, 1, 1, 1)
    destination[:, target] = torch.where(real, source[:, plan.source], destination[:, target])


def copy_conv(source: Tensor, destination: Tensor, plan: CopyPlan, history: int) -> None:
    """Copy columns offset … offset + history − 1 to columns 0 … history − 1, between pools [L, S, E, D]; in place."""
    _check(source[:, :, :history], destination[:, :, :history])
    target = _target(plan)
    wanted = plan.offset[:, None] + torch.arange(history, device=source.device)
    moved = source[:, plan.source[:, None], wanted]
    real = (target > NULL).view(1, -1, 1, 1)
    destination[:, target, :history] = torch.where(real, moved, destination[:, target, :history])


def _target(plan: CopyPlan) -> Tensor:
    return torch.where((plan.source > NULL) & (plan.destination > NULL), plan.destination, NULL)


def _check(source: Tensor, destination: Tensor) -> None:
    """Refuse pools between which bytes can't be copied."""
    a, b = (source.shape[0], *source.shape[2:]), (destination.shape[0], *destination.shape[2:])
    if a != b or source.dtype is not destination.dtype:
        raise ValueError(
            f"slots of {list(a)} {source.dtype} can't be copied to slots of {list(b)} {destination.dtype}; "
            "layers, state shape and dtype must agree"
        )
