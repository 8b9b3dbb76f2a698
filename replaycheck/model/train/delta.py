"""The KDA recurrence under autograd: the chunk kernel of flash-linear-attention, or token by token.

Both take the raw projections and apply normalisation, decay and beta inside. The second is slow and
obvious; it lets the training loop run, and be tested, without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import softplus

from replaycheck.errors import EngineEnvironmentError

__all__ = ["DeltaRule", "chunk_delta_rule", "sequential_delta_rule"]

#: (q, k, v [B, T, H, D], decay [B, T, H, D], beta [B, T, H], A_log [H], dt_bias [H·D]) → o [B, T, H, D].
DeltaRule = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

# Added under the root, as fla and the engines do; not the max() of torch's normalize.
_NORM_EPS: Final = 1e-6


def chunk_delta_rule() -> DeltaRule:
    """fla's `chunk_kda`. Raises :class:`EngineEnvironmentError` without fla or without a CUDA device."""
    if not torch.cuda.is_available():
        raise EngineEnvironmentError("training on 'cuda' needs a CUDA device and none is visible; use device 'cpu'")
    try:
        from fla.ops.kda import chunk_kda  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise EngineEnvironmentError(
            f"training on 'cuda' needs flash-linear-attention ({error}); install 'fla-core'"
        ) from None

    def rule(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor) -> Tensor:
        output: Tensor = chunk_kda(
            q, k, v, decay, beta,
            A_log=a_log, dt_bias=dt_bias, use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        )[0]  # fmt: skip
        return output

    return rule


def sequential_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor
) -> Tensor:
    """One token after the other in fp32; shapes as in :data:`DeltaRule` (Kimi Linear, arXiv 2510.26692).

    S ← S·diag(e^g); S ← S + β (v − S k̂) k̂ᵀ; o = S q̂ / sqrt(D), with S [B, H, D_v, D_k] from zero.
    """
    heads, width = q.shape[2:]
    q, k, v, decay, beta = (x.float() for x in (q, k, v, decay, beta))
    q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + _NORM_EPS) for x in (q, k))
    rates = a_log.float().exp().view(heads, 1)
    kept = torch.exp(-rates * softplus(decay + dt_bias.float().view(heads, width)))
    beta = beta.sigmoid().unsqueeze(-1)
    state = q.new_zeros(q.shape[0], heads, v.shape[-1], width)
    outputs = []
    for t in range(q.shape[1]):
        state = state * kept[:, t].unsqueeze(-2)
        update = beta[:, t] * (v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t]))
        state = state + update.unsqueeze(-1) * k[:, t].unsqueeze(-2)
        outputs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1) / math.sqrt(width)
