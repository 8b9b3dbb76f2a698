"""RecoverSSM's commit: which tokens to keep and where, as tensors; and the state rebuilt from checkpoint and records.

With d_t = e^{g_t} the recurrence S_t = S_{t−1}∘d_t + u_t k̂_tᵀ (columns scaled) gives, by induction over n,

    S_n = S_0∘Π_{t≤n} d_t + Σ_{t≤n} u_t (k̂_t∘Π_{t<j≤n} d_j)ᵀ.

u_t already contains what depends on the state, so no matrix-vector product is needed. The sum is taken from the last token
to the first, carrying only the product of decays D [K]; the state itself never feeds a later step ("non-recursive").
Source: vLLM 0.33.0, models/kimi_k3/nvidia/ops/recoverssm.py (plan, commit), from its description; own code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..activation import l2_normalise, log_decay
from ..recipe import Recipe
from .verify import Records

NULL = 0
"""The null slot: never a source, never written."""


@dataclass(frozen=True)
class Decays:
    """A layer's decay parameters: A_log [HV], dt_bias [HV, K or 1], lower bound (as in ``KdaInputs``)."""

    A_log: Tensor
    dt_bias: Tensor
    lower_bound: float | None = None


@dataclass(frozen=True)
class Align:
    """Where aligned blocks are kept.

    Attributes:
        table: [R, columns] slot of each block of each request; column p holds the state after (p + 1)·block tokens.
        computed: [R] tokens that each checkpoint covers.
        block: tokens a block; at least the width of a window.
    """

    table: Tensor
    computed: Tensor
    block: int


@dataclass(frozen=True)
class CommitPlan:
    """One row a request, all [R] int64 on the device.

    Attributes:
        source: slot of the checkpoint.
        length: tokens to keep; 0: nothing is read or written for this row.
        final: slot of the state after ``length`` tokens; NULL where length is 0.
        boundary: slot of the state at the block boundary inside the window; NULL if there is none.
        boundary_length: tokens of the window before that boundary.
    """

    source: Tensor
    length: Tensor
    final: Tensor
    boundary: Tensor
    boundary_length: Tensor


def plan_commit(
    accepted: Tensor, lengths: Tensor, source: Tensor, width: int, align: Align | None = None
) -> CommitPlan:
    """The plan of a step, computed on the device without asking the host.

    Args:
        accepted: [R] tokens of the window that sampling kept, the verified first one included; ≤ 0 skips the row.
        lengths: [R] tokens of the window. source: [R] checkpoint slots. width: Q.

    Raises:
        ValueError: the block is smaller than a window, so that one window could cross two boundaries.
    """
    if align is not None and align.block < width:
        raise ValueError(f"align block of {align.block} tokens is smaller than the speculation window of {width}")
    length = accepted.clamp(min=0).minimum(lengths).clamp(max=width)
    length = torch.where(source > NULL, length, 0)
    kept = length > 0
    if align is None:
        nothing = torch.zeros_like(source)
        return CommitPlan(source, length, torch.where(kept, source, NULL), nothing, nothing)
    end = align.computed + length
    # A state that ends on a boundary belongs to the block that it completes: hence the −1.
    column = ((end - 1).clamp(min=0) // align.block).clamp(max=align.table.shape[1] - 1)
    before = align.computed // align.block
    ahead = (before + 1) * align.block - align.computed
    crosses = kept & (length >= ahead)
    # Looked up only where crossed: past the table's end there is no block yet.
    boundary = _slot(align.table, torch.where(crosses, before, 0))
    return CommitPlan(
        source,
        length,
        torch.where(kept, _slot(align.table, column), NULL),
        torch.where(crosses, boundary, NULL),
        torch.where(crosses, ahead, 0),
    )


def running_slot(align: Align, lengths: Tensor) -> Tensor:
    """[R] slot that a step of ``lengths`` tokens works in: the block of the last token it may compute.

    Where that isn't the block of the checkpoint, the checkpoint is copied there before the step. Otherwise the verify
    would roll its inputs into the convolution window of a completed block, which others may hit
    (vLLM 0.33.0, v1/worker/mamba_utils.py, pre-copy: ⌈computed after the step / block⌉ − 1).
    """
    column = (align.computed + lengths - 1).clamp(min=0) // align.block
    return _slot(align.table, column.clamp(max=align.table.shape[1] - 1))


def _slot(table: Tensor, column: Tensor) -> Tensor:
    return table.gather(1, column[:, None])[:, 0]


def rebuild(checkpoint: Tensor, records: Records, lengths: Tensor, decays: Decays, recipe: Recipe) -> Tensor:
    """The state after ``lengths`` tokens of each window.

    Args:
        checkpoint: [R, HV, V, K] in the dtype of the computation. lengths: [R], 0 to Q.

    Returns:
        [R, HV, V, K], before any cast; equal to the checkpoint where the length is 0.
    """
    keys, factors = activated(records, decays, recipe, checkpoint.dtype)
    return _accumulate(checkpoint, records.correction.to(checkpoint.dtype), keys, factors, lengths)


def magnitude(checkpoint: Tensor, records: Records, lengths: Tensor, decays: Decays, recipe: Recipe) -> Tensor:
    """The same sum of absolute values, [R, HV, V, K]: what rounding errors of a rebuild are relative to (see ``bound``)."""
    keys, factors = activated(records, decays, recipe, torch.float64)
    return _accumulate(checkpoint.double().abs(), records.correction.double().abs(), keys.abs(), factors, lengths)


def _accumulate(checkpoint: Tensor, u: Tensor, keys: Tensor, factors: Tensor, lengths: Tensor) -> Tensor:
    """u [R, HV, Q, V], keys and factors [R, HV, Q, K]; from the last kept token to the first."""
    total, decay = torch.zeros_like(checkpoint), torch.ones_like(checkpoint[:, :, 0])
    for t in reversed(range(u.shape[2])):
        # Rows that don't keep token t add nothing; their records may hold anything.
        live = (lengths > t)[:, None, None]
        update = u[:, :, t, :, None] * (keys[:, :, t] * decay)[:, :, None, :]
        total = torch.where(live[..., None], total + update, total)
        decay = torch.where(live, decay * factors[:, :, t], decay)
    return torch.where((lengths > 0)[:, None, None, None], checkpoint * decay[:, :, None, :] + total, checkpoint)


def activated(records: Records, decays: Decays, recipe: Recipe, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Normalised keys and decays of the records, [R, HV, Q, K]: the values, to the bit, that the verify computed."""
    rows, heads, width, _ = records.decay.shape
    container = torch.float64 if records.correction.dtype is torch.float64 else torch.float32
    key = l2_normalise(records.key.to(container), recipe.recurrent_norm, recipe.recurrent_qk, recipe)
    keys = key.repeat_interleave(heads // key.shape[1], 1)
    raw = records.decay.to(container).transpose(1, 2).reshape(rows * width, heads, -1)
    g = log_decay(raw, decays.A_log, decays.dt_bias, recipe, decays.lower_bound)
    factors = torch.exp(g).unflatten(0, (rows, width)).transpose(1, 2).expand_as(keys)
    return keys.to(dtype), factors.to(dtype)
