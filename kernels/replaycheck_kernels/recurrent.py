"""The recurrent form of KDA and GDN, as decode kernels run it: fp32 state in registers, one token after the other.

Two implementations of one recipe: ``ours/recurrent-torch`` (any device, the reference) and ``ours/recurrent-cpu``
(compiled with numba; the sums over K run in a fixed order, so bits don't depend on the batch). The state is stored by the
caller, once per call: a decode step in a reduced pool is therefore one rounding a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .activation import activate_beta, l2_normalise, log_decay
from .contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from .grid import chunk_starts
from .precision import round_to
from .recipe import Recipe


@dataclass(frozen=True)
class Activated:
    """Inputs of the bare recurrence: q (scaled), k, decay [N, HV, K]; v [N, HV, V]; beta [N, HV]."""

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    beta: Tensor


def activate(inputs: KdaInputs, recipe: Recipe) -> Activated:
    """Everything that is element-wise over tokens, done for all tokens at once."""
    g = log_decay(inputs.a, inputs.A_log, inputs.dt_bias, recipe, inputs.lower_bound)
    q, k = (l2_normalise(x, recipe.recurrent_norm, recipe.recurrent_qk, recipe) for x in (inputs.q, inputs.k))
    width = k.shape[-1]
    return Activated(
        q=inputs.to_value_heads(q * width ** (-0.5 * recipe.scale_times)),
        k=inputs.to_value_heads(k),
        v=inputs.v,
        decay=torch.exp(g).expand(-1, -1, width),
        beta=activate_beta(inputs.b, recipe.recurrent_beta, recipe),
    )


def tap_points(inputs: KdaInputs, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> list[int]:
    """Packed token index before which each snapshot is taken; −1 for a final state."""
    points = []
    for row in snapshots:
        if row.source is SnapshotSource.FINAL:
            points.append(-1)
            continue
        starts = chunk_starts(inputs.lengths()[row.sequence], inputs.start(row.sequence), recipe)
        points.append(inputs.offsets[row.sequence] + starts[row.chunk])
    return points


def advance(S: Tensor, x: Activated, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One token of each active sequence. S: [A, HV, V, K]; t: [A] packed token indices.

    Returns:
        The new S, the correction u [A, HV, V] that it gained, and o [A, HV, V].
    """
    k = x.k[t][:, :, None, :]
    S = S * x.decay[t][:, :, None, :]
    u = x.beta[t][:, :, None] * (x.v[t] - (S * k).sum(-1))
    S = S + u[..., None] * k
    return S, u, (S * x.q[t][:, :, None, :]).sum(-1)


def advance_late(S: Tensor, x: Activated, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with the token's decay after its delta and its output (``decay_at = last``): a fault. S: [A, HV, V, K]."""
    k = x.k[t][:, :, None, :]
    u = x.beta[t][:, :, None] * (x.v[t] - (S * k).sum(-1))
    S = S + u[..., None] * k
    o = (S * x.q[t][:, :, None, :]).sum(-1)
    return S * x.decay[t][:, :, None, :], u, o


def forward(inputs: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """All sequences advance together from states [R, HV, V, K], token by token, in torch."""
    x, points = activate(inputs, recipe), tap_points(inputs, snapshots, recipe)
    state, o, taps = initial.clone(), torch.empty_like(inputs.v), initial.new_empty((len(points), *initial.shape[1:]))
    lengths, one = inputs.lengths(), advance if recipe.decay_at == "first" else advance_late
    for step in range(max(lengths)):
        active = [r for r, length in enumerate(lengths) if length > step]
        tokens = [inputs.offsets[r] + step for r in active]
        for i, point in enumerate(points):
            if point in tokens:
                taps[i] = state[snapshots[i].sequence]
        state[active], _, o[tokens] = one(state[active], x, torch.tensor(tokens, device=o.device))
    for i, point in enumerate(points):
        if point < 0:
            taps[i] = state[snapshots[i].sequence]
    return KdaOutput(round_to(o, recipe.output, recipe.rounding), state, taps)


_SOURCES = frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL})
RECURRENT_TORCH = StateKernel("ours/recurrent-torch", "recurrent", _SOURCES, None, forward)
"""The recurrent form in plain torch: any recipe, on the CPU and on CUDA."""
