"""The extended window of the short convolution, by columns.

Without speculation the convolution's state is the last h = W − 1 inputs, W its width. With windows of Q tokens it has
E = h + Q − 1 columns: after a verify they hold [last h − 1 old inputs | new inputs], and the state after n of them is the h
columns from n − 1 on. An engine either reads at that offset next time (slot selection) or moves those columns to the
front (RecoverSSM's compaction). Columns are copied verbatim: a difference there is never rounding.
Source: vLLM 0.33.0 (models/kimi_k3/nvidia/ops/recoverssm.py; v1/worker/mamba_utils.py), layout SD: columns before channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .commit import NULL, CommitPlan


def columns(history: int, width: int) -> int:
    """E for a state of ``history`` inputs and windows of ``width`` tokens."""
    return history + width - 1


def read(conv: Tensor, slots: Tensor, offsets: Tensor, history: int) -> Tensor:
    """[R, h, D]: the ``history`` columns from ``offsets`` [R] on, of ``slots`` [R] of conv [S, E, D]."""
    wanted = offsets[:, None] + torch.arange(history, device=conv.device)
    return conv[slots[:, None], wanted]


def roll_in(old: Tensor, fresh: Tensor, lengths: Tensor, before: Tensor) -> Tensor:
    """The columns after a verify.

    Args:
        old: [R, h, D], the history that the verify read. fresh: [R, Q, D], the new inputs. lengths: [R] of them are real.
        before: [R, E, D], what stays in the columns that nothing new goes to.

    Returns:
        [R, E, D]. A row without tokens keeps its columns.
    """
    line = torch.cat([old[:, 1:], fresh], 1)
    filled = torch.where(lengths > 0, old.shape[1] - 1 + lengths, 0)
    used = torch.arange(line.shape[1], device=line.device) < filled[:, None]
    return torch.where(used[..., None], line, before)


def compact(conv: Tensor, plan: CommitPlan, history: int) -> None:
    """Move the kept state's columns to the front of the final slot, and the boundary's to the front of its own; in place.

    All columns are read before any is written, so final and source may be one slot. conv: [S, E, D].
    """
    final = read(conv, plan.source, (plan.length - 1).clamp(min=0), history)
    boundary = read(conv, plan.source, (plan.boundary_length - 1).clamp(min=0), history)
    put(conv[:, :history], plan.boundary, boundary)
    put(conv[:, :history], plan.final, final)


def put(pool: Tensor, slots: Tensor, values: Tensor) -> None:
    """Store values [R, …] in ``slots`` [R] of pool [S, …], one cast each; rows whose slot is NULL change nothing.

    They write the null slot's own bytes back to it, which needs no host to filter rows.
    """
    real = (slots > NULL).view(-1, *[1] * (values.ndim - 1))
    pool[slots] = torch.where(real, values.to(pool.dtype), pool[slots])
