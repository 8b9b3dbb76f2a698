"""A third party's kernel as a provider: KDA token by token in plain torch, for the CPU and CUDA.

A package announces it with: [project.entry-points."replaycheck.kernels"] and mine = "provider:factory"
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import softplus

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.providers import Capabilities, Decay, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.providers.provider import checked
from replaycheck_kernels.recipe import Recipe

CAN = Capabilities(("exact",), decays=frozenset({Decay.SOFTPLUS}), devices=frozenset({"cpu", "cuda"}))


def forward(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """Outputs [N, HV, V] and final states [R, HV, V, K] from initial states, which stay as they are."""
    decay = torch.exp(-x.A_log.exp()[:, None] * softplus(x.a + x.dt_bias))
    q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (x.q, x.k))
    o, finals, beta = torch.empty_like(x.v), [], x.b.sigmoid()[..., None]
    for sequence, state in enumerate(initial):
        for t in range(x.offsets[sequence], x.offsets[sequence + 1]):
            state = state * decay[t][:, None, :]
            u = beta[t] * (x.v[t] - (state @ k[t][..., None])[..., 0])
            state = state + u[..., None] * k[t][:, None, :]
            o[t] = (state @ q[t][..., None])[..., 0] * k.shape[-1] ** -0.5
        finals.append(state)
    final = torch.stack(finals)
    return KdaOutput(o, final, final[[row.sequence for row in rows]])


def factory() -> Provider:
    call = checked("mine/kda", ModelKind.KDA, CAN, forward)
    kernel = StateKernel("mine/kda", "recurrent", frozenset({SnapshotSource.FINAL}), frozenset({"exact"}), call)
    return Provider("mine", (ProviderKernel(ModelKind.KDA, kernel, CAN),), version="1.0", tested=("1.0",))
