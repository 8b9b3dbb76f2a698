"""The chunk (WY) form of KDA, as prefill kernels run it: an emulator that runs any recipe.

With i, j inside a chunk of C tokens and G the inclusive cumulative log decay (times log2 e for exp2):

    1. Akk[i,j] = β_i Σ_k k̂_ik k̂_jk 2^(G_ik − G_jk), i > j;   Aqk[i,j] = Σ_k s·q̂_ik k̂_jk 2^(G_ik − G_jk), i ≥ j
    2. T = (I + Akk)^-1
    3. U = T (β v);   W = T (β k̂ 2^G);   Kg = k̂ 2^(G_last − G)
    4. per chunk, S its state:  h = S;  Vnew = U − W Sᵀ;  S ← S·diag(2^G_last) + Vnewᵀ Kg
    5. O = (s·q̂ 2^G) Sᵀ + Aqk Vnew

Every product is a batch of matrices of one constant shape, so a sequence's bits don't depend on what is computed beside
it, nor on tokens after it (but for ``diagonal = middle``, which is in the recipe because engines do it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .activation import LOG2E, activate_beta, l2_normalise, log_decay
from .contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from .grid import ChunkMap, chunk_map
from .intra import exponential, inverse, scores
from .precision import Precision, round_to
from .recipe import Recipe


@dataclass(frozen=True)
class Intra:
    """What each chunk contributes independently of the state. B = chunks, all [B, H, …]."""

    u: Tensor  # [B, H, C, V]
    w: Tensor  # [B, H, C, K]
    k_decayed: Tensor  # [B, H, C, K]
    q_decayed: Tensor  # [B, H, C, K]
    qk: Tensor  # [B, H, C, C], lower triangular
    decay: Tensor  # [B, H, 1, K] of the whole chunk


def _cumulative(g: Tensor, recipe: Recipe) -> Tensor:
    """Cumulative log decay inside the chunk, in the unit of the recipe's exponential: [B, H, C, K]."""
    total = g.cumsum(2)
    return round_to(total * LOG2E if recipe.exp_base == "2" else total, recipe.decay_cumsum, recipe.rounding)


def _chunks(x: Tensor, chunks: ChunkMap) -> Tensor:
    """Packed [N, H, …] to [B, H, C, …]; places without a token are zero."""
    padded = torch.cat([x, x.new_zeros((1, *x.shape[1:]))])
    return padded[chunks.tokens].transpose(1, 2).contiguous()


def _product(a: Tensor, b: Tensor) -> Tensor:
    """[B, H, m, n] @ [B, H, n, p] as one batch of matrices."""
    batch = a.shape[:2]
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1)).view(*batch, a.shape[2], b.shape[3])


def intra_chunk(inputs: KdaInputs, chunks: ChunkMap, recipe: Recipe) -> Intra:
    """Steps 1 to 3 for all chunks at once."""

    def keep(x: Tensor, precision: Precision) -> Tensor:
        return round_to(x, precision, recipe.rounding)

    q = _chunks(l2_normalise(inputs.q, recipe.norm, recipe.qk_norm, recipe), chunks)
    k = _chunks(l2_normalise(inputs.k, recipe.norm, recipe.qk_norm, recipe), chunks)
    v = _chunks(inputs.v, chunks)
    G = _cumulative(_chunks(log_decay(inputs.a, inputs.A_log, inputs.dt_bias, recipe), chunks), recipe)
    beta = _chunks(activate_beta(inputs.b, recipe.beta, recipe), chunks)[..., None]
    scale = inputs.k.shape[-1] ** -0.5

    counts = (chunks.tokens < inputs.offsets[-1]).sum(1).tolist()
    kk, qk = scores(q, k, G, counts, recipe)
    T = keep(inverse(keep(kk.tril(-1) * beta, recipe.kk_matrix), recipe), recipe.inverse)
    growth = exponential(G, recipe)
    last = G[:, :, -1:]
    q_scaled = keep(q * scale, recipe.q_scaled)
    return Intra(
        u=keep(_product(T, keep(v * beta, recipe.beta_v)), recipe.u),
        w=keep(_product(T, keep(k * beta * growth, recipe.beta_k)), recipe.w),
        k_decayed=keep(k * exponential(last - G, recipe), recipe.k_decayed),
        q_decayed=keep(q_scaled * growth, recipe.q_decayed),
        qk=keep(qk.tril() * scale, recipe.qk_matrix),
        decay=exponential(last, recipe),
    )


def _state_pass(intra: Intra, chunks: ChunkMap, initial: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor, Tensor]:
    """Steps 4 and 5. Returns accumulators at the chunk starts [B, H, V, K], finals [R, H, V, K], o [B, H, C, V].

    Sequences advance together, chunk by chunk; those that are over drop out.
    """
    starts = torch.empty((intra.u.shape[0], *initial.shape[1:]), dtype=initial.dtype, device=initial.device)
    o = torch.empty_like(intra.u)
    state = initial.clone()
    counts = [chunks.count(r) for r in range(len(chunks.first) - 1)]
    for c in range(max(counts)):
        active = [r for r, count in enumerate(counts) if count > c]
        rows = [chunks.row(r, c) for r in active]
        S = state[active]
        starts[rows] = S
        operand = round_to(S, recipe.state_operand, recipe.rounding).transpose(2, 3)
        v_new = round_to(intra.u[rows] - _product(intra.w[rows], operand), recipe.v_new, recipe.rounding)
        o[rows] = _product(intra.q_decayed[rows], operand) + _product(intra.qk[rows], v_new)
        state[active] = S * intra.decay[rows] + _product(v_new.transpose(2, 3), intra.k_decayed[rows])
    return starts, state, o


def forward(inputs: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """Run the chunk form on packed sequences. See :class:`StateKernel` for the contract."""
    chunks = chunk_map(inputs, recipe)
    starts, final, o = _state_pass(intra_chunk(inputs, chunks, recipe), chunks, initial, recipe)
    taken = [_snapshot(row, starts, final, chunks, recipe) for row in snapshots]
    packed = torch.empty_like(inputs.v)
    valid = chunks.tokens < inputs.offsets[-1]
    packed[chunks.tokens[valid]] = o.transpose(1, 2)[valid]
    return KdaOutput(
        round_to(packed, recipe.output, recipe.rounding), final, torch.stack(taken) if taken else final[:0]
    )


def _snapshot(row: SnapshotRow, starts: Tensor, final: Tensor, chunks: ChunkMap, recipe: Recipe) -> Tensor:
    if row.source is SnapshotSource.FINAL:
        return final[row.sequence]
    state = starts[chunks.row(row.sequence, row.chunk)]
    return round_to(state, recipe.chunk_state, recipe.rounding) if row.source is SnapshotSource.CHUNK_STATE else state


CHUNK_EMULATOR = StateKernel("ours/chunk-emulator", "chunk", frozenset(SnapshotSource), None, forward)
