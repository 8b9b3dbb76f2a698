"""A third party's kernel as a provider: KDA token by token in plain torch, for the CPU and CUDA.

A package announces it with: [project.entry-points."replaycheck.kernels"] and mine = "provider:factory"
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import softplus

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.providers import Capabilities, Decay, ModelKind, Provider, ProviderKernel, checked
from replaycheck_kernels.recipe import Recipe

CAN = Capabilities(("exact",), decays=frozenset({Decay.SOFTPLUS}), devices=frozenset({"cpu", "cuda"}))


def forward(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """Outputs [N, HV, V] and final states [R, HV, V, K] from initial states, which stay as they are."""
    o, finals = torch.empty_like(x.v), []
    for sequence, state in enumerate(initial):
        for t in range(x.offsets[sequence], x.offsets[sequence + 1]):  # one shape for all: other tokens change no bit
            q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (x.q[t], x.k[t]))
            state = state * torch.exp(-x.A_log.exp()[:, None] * softplus(x.a[t] + x.dt_bias))[:, None, :]
            u = x.b[t].sigmoid()[:, None] * (x.v[t] - (state @ k[..., None])[..., 0])
            state = state + u[..., None] * k[:, None, :]
            o[t] = (state @ q[..., None])[..., 0] * k.shape[-1] ** -0.5
        finals.append(state)
    final = torch.stack(finals)
    return KdaOutput(o, final, final[[row.sequence for row in rows]])


def _kernel(name: str, form: str) -> ProviderKernel:
    call = checked(name, ModelKind.KDA, CAN, forward)
    kernel = StateKernel(name, form, frozenset({SnapshotSource.FINAL}), frozenset({"exact"}), call)
    return ProviderKernel(ModelKind.KDA, kernel, CAN)


def factory() -> Provider:
    """A model needs both forms: ``chunk`` computes prompts, ``recurrent`` decodes."""
    kernels = (_kernel("mine/kda", "recurrent"), _kernel("mine/kda_prompt", "chunk"))
    return Provider("mine", kernels, version="1.0", tested=("1.0",))
