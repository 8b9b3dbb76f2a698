"""The KDA and GDN recurrence in float64, token by token: slow, obviously right, and what every other kernel is held against.

Per head, S is [V, K]:  S ← S·diag(e^g);  u = β(v − S k̂);  S ← S + u k̂ᵀ;  o = K^-½ · S q̂
(Kimi Linear, arXiv 2510.26692, eq. of KDA; order as in the engines: decay, delta, output after the write).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .activation import L2_EPSILON
from .contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from .grid import chunk_starts
from .recipe import Recipe


def step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """One token of one sequence.

    Args:
        S: [HV, V, K]. q, k: [HV, K], normalised. g: [HV, K] or [HV, 1], log decay. v: [HV, V]. beta: [HV].

    Returns:
        The new state and o [HV, V].
    """
    S = S * g.exp()[:, None, :]
    u = beta[:, None] * (v - (S @ k[:, :, None])[:, :, 0])
    S = S + u[:, :, None] * k[:, None, :]
    return S, (S @ q[:, :, None])[:, :, 0] * k.shape[-1] ** -0.5


def _normal(x: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + L2_EPSILON)


def _log_decay(x: KdaInputs) -> Tensor:
    """−e^A·softplus(y), or L·sigmoid(e^A·y): [N, HV, K or 1]."""
    y, rate = x.a.double() + x.dt_bias.double(), x.A_log.double().exp()[:, None]
    if x.lower_bound is None:
        return -rate * torch.nn.functional.softplus(y)
    return x.lower_bound * torch.sigmoid(rate * y)


def prepared(x: KdaInputs) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What :func:`step` takes, for all tokens: q, k [N, HV, K] normalised, v [N, HV, V], beta [N, HV], log decay."""
    q, k = (x.to_value_heads(_normal(part.double())) for part in (x.q, x.k))
    return q, k, x.v.double(), torch.sigmoid(x.b.double()), _log_decay(x)


def forward(inputs: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """All sequences, one after the other; every value is cast to float64 first. ``recipe`` gives the chunk grid only."""
    q, k, v, beta, g = prepared(inputs)
    taps: dict[tuple[int, int], Tensor] = {}
    o, finals = torch.empty_like(v), []
    for r, (begin, end) in enumerate(zip(inputs.offsets, inputs.offsets[1:], strict=False)):
        S = initial[r].double()
        starts = chunk_starts(end - begin, inputs.start(r), recipe)
        for t in range(begin, end):
            if t - begin in starts:
                taps[r, starts.index(t - begin)] = S
            S, o[t] = step(S, q[t], k[t], v[t], g[t], beta[t])
        finals.append(S)
    final = torch.stack(finals)
    rows = [
        final[row.sequence] if row.source is SnapshotSource.FINAL else taps[row.sequence, row.chunk]
        for row in snapshots
    ]
    return KdaOutput(o, final, torch.stack(rows) if rows else final[:0])


ORACLE_KERNEL = StateKernel("ours/oracle", "recurrent", frozenset(SnapshotSource), None, forward)
"""The float64 oracle as a kernel: any recipe, every snapshot source; slow, and what the others are held against."""
