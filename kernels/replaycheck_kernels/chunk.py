"""The chunk (WY) form of KDA and GDN, as prefill kernels run it: an emulator that runs any recipe.

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
from .intra import exponential, head_scores, inverse, scores
from .precision import Precision, round_to
from .recipe import Recipe


@dataclass(frozen=True)
class Tokens:
    """Activated inputs in chunks. B = chunks, HV value heads; places without a token are zero."""

    q: Tensor  # [B, HV, C, K], normalised
    k: Tensor  # [B, HV, C, K], normalised
    v: Tensor  # [B, HV, C, V]
    G: Tensor  # [B, HV, C, K], or [B, HV, C, 1] with one decay a head
    total: Tensor  # [B, HV, 1, K or 1], of the whole chunk
    beta: Tensor  # [B, HV, C, 1]


@dataclass(frozen=True)
class Intra:
    """What each chunk contributes independently of the state. B = chunks, all [B, HV, …]."""

    tokens: Tokens
    kk: Tensor  # [B, HV, C, C], strictly lower triangular, with beta
    inverse: Tensor  # [B, HV, C, C], of the unit lower triangle
    u: Tensor  # [B, HV, C, V]
    w: Tensor  # [B, HV, C, K]
    k_decayed: Tensor  # [B, HV, C, K]; plain k where decays are on the products
    q_decayed: Tensor  # [B, HV, C, K]; plain q where decays are on the products
    qk: Tensor  # [B, HV, C, C], lower triangular
    decay: Tensor  # [B, HV, 1, K or 1] of the whole chunk
    growth: Tensor | None  # [B, HV, C, 1], 2^G for the product q·S where decays are on the products
    remaining: Tensor | None  # [B, HV, C, 1], 2^(G_last − G) for Vnew, likewise
    state_scale: float  # of the fp32 product q·S
    local_scale: float  # of the fp32 product Aqk·Vnew


@dataclass(frozen=True)
class Pass:
    """What the pass over the states leaves; o before its rounding."""

    starts: Tensor  # [B, HV, V, K], accumulators at chunk starts
    final: Tensor  # [R, HV, V, K]
    v_new: Tensor  # [B, HV, C, V]
    o: Tensor  # [B, HV, C, V]


def _cumulative(g: Tensor, recipe: Recipe) -> Tensor:
    """Cumulative log decay inside the chunk, in the unit of the recipe's exponential: the shape of g [B, HV, C, …]."""
    total = g.cumsum(2)
    return round_to(total * LOG2E if recipe.exp_base == "2" else total, recipe.decay_cumsum, recipe.rounding)


def _chunks(x: Tensor, chunks: ChunkMap) -> Tensor:
    """Packed [N, H, …] to [B, H, C, …]; places without a token are zero."""
    padded = torch.cat([x, x.new_zeros((1, *x.shape[1:]))])
    return padded[chunks.tokens].transpose(1, 2).contiguous()


def packed(x: Tensor, chunks: ChunkMap, tokens: int) -> Tensor:
    """[B, H, C, …] back to packed [N, H, …]."""
    out = x.new_empty((tokens, x.shape[1], *x.shape[3:]))
    valid = chunks.tokens < tokens
    out[chunks.tokens[valid]] = x.transpose(1, 2)[valid]
    return out


def _product(a: Tensor, b: Tensor) -> Tensor:
    """[B, H, m, n] @ [B, H, n, p] as one batch of matrices."""
    batch = a.shape[:2]
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1)).view(*batch, a.shape[2], b.shape[3])


def normalised(x: Tensor, recipe: Recipe) -> Tensor:
    """q or k [N, H, K] as stored for the chunk kernel."""
    return l2_normalise(x, recipe.norm, recipe.qk_norm, recipe)


def _tokens(inputs: KdaInputs, chunks: ChunkMap, recipe: Recipe) -> Tokens:
    q, k = (inputs.to_value_heads(normalised(x, recipe)) for x in (inputs.q, inputs.k))
    g = log_decay(inputs.a, inputs.A_log, inputs.dt_bias, recipe, inputs.lower_bound)
    beta = activate_beta(inputs.b, recipe.beta, recipe)
    G = _cumulative(_chunks(g, chunks), recipe)
    total = G[:, :, -1:]
    if recipe.decay_at == "last":  # what a token reads and leaves has the decays of the tokens before it
        G = torch.cat([torch.zeros_like(total), G[:, :, :-1]], 2)
    return Tokens(
        q=_chunks(q, chunks),
        k=_chunks(k, chunks),
        v=_chunks(inputs.v, chunks),
        G=G,
        total=total,
        beta=_chunks(beta, chunks)[..., None],
    )


def on_products(inputs: KdaInputs, recipe: Recipe) -> bool:
    """Whether decays multiply finished products: only one decay a head can."""
    return inputs.per_head and recipe.decay_on == "products"


def intra_chunk(inputs: KdaInputs, chunks: ChunkMap, recipe: Recipe) -> Intra:
    """Steps 1 to 3 for all chunks at once."""

    def keep(y: Tensor, precision: Precision) -> Tensor:
        return round_to(y, precision, recipe.rounding)

    x, late = _tokens(inputs, chunks, recipe), on_products(inputs, recipe)
    on_query, scale = recipe.scale_on == "query" and not late, inputs.k.shape[-1] ** (-0.5 * recipe.scale_times)
    if late:
        kk, qk = head_scores(x.q, x.k, x.G, recipe)
    else:
        counts = (chunks.tokens < inputs.offsets[-1]).sum(1).tolist()
        kk, qk = scores(x.q, x.k, x.G, counts, recipe, inputs.lower_bound is not None)
    kk = keep(kk.tril(-1) * x.beta, recipe.kk_matrix)
    T = keep(inverse(kk, recipe), recipe.inverse)
    growth, last = exponential(x.G, recipe), x.total
    remaining = exponential(last - x.G, recipe)
    q = keep(x.q * scale, recipe.q_scaled) if on_query else x.q
    return Intra(
        tokens=x,
        kk=kk,
        inverse=T,
        u=keep(_product(T, keep(x.v * x.beta, recipe.beta_v)), recipe.u),
        w=keep(_product(T, keep(x.k * x.beta * growth, recipe.beta_k)), recipe.w),
        k_decayed=x.k if late else keep(x.k * remaining, recipe.k_decayed),
        q_decayed=x.q if late else keep(q * growth, recipe.q_decayed),
        qk=keep(qk.tril() if late else qk.tril() * scale, recipe.qk_matrix),
        decay=exponential(last, recipe),
        growth=growth if late else None,
        remaining=remaining if late else None,
        state_scale=1.0 if on_query else scale,
        local_scale=scale if late else 1.0,
    )


def state_pass(intra: Intra, chunks: ChunkMap, initial: Tensor, recipe: Recipe) -> Pass:
    """Steps 4 and 5 from states [R, HV, V, K]. Sequences advance together, chunk by chunk; those that are over drop out."""

    def keep(y: Tensor, precision: Precision) -> Tensor:
        return round_to(y, precision, recipe.rounding)

    starts = torch.empty((intra.u.shape[0], *initial.shape[1:]), dtype=initial.dtype, device=initial.device)
    o, v_new = torch.empty_like(intra.u), torch.empty_like(intra.u)
    state = initial.clone()
    counts = [chunks.count(r) for r in range(len(chunks.first) - 1)]
    for c in range(max(counts)):
        active = [r for r, count in enumerate(counts) if count > c]
        rows = [chunks.row(r, c) for r in active]
        S = state[active]
        starts[rows] = S
        operand = keep(S, recipe.state_operand).transpose(2, 3)
        difference = intra.u[rows] - _product(intra.w[rows], operand)
        v_new[rows] = keep(difference, recipe.v_new)
        o[rows] = _outputs(intra, rows, operand, v_new[rows])
        update = v_new[rows]
        if intra.remaining is not None:
            update = keep(difference * intra.remaining[rows], recipe.v_decayed)
        state[active] = S * intra.decay[rows] + _product(update.transpose(2, 3), intra.k_decayed[rows])
    return Pass(starts, state, v_new, o)


def _outputs(intra: Intra, rows: list[int], operand: Tensor, v_new: Tensor) -> Tensor:
    """Step 5 of the chunks ``rows``: [A, HV, C, V]. A scale of 1 changes no bit."""
    from_state = _product(intra.q_decayed[rows], operand)
    if intra.growth is not None:
        from_state = from_state * intra.growth[rows]
    return from_state * intra.state_scale + _product(intra.qk[rows], v_new) * intra.local_scale


def forward(inputs: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
    """Run the chunk form on packed sequences from states [R, HV, V, K]. See :class:`StateKernel` for the contract."""
    chunks = chunk_map(inputs, recipe)
    done = state_pass(intra_chunk(inputs, chunks, recipe), chunks, initial, recipe)
    taken = [_snapshot(row, done, chunks, recipe) for row in snapshots]
    o = round_to(packed(done.o, chunks, inputs.offsets[-1]), recipe.output, recipe.rounding)
    return KdaOutput(o, done.final, torch.stack(taken) if taken else done.final[:0])


def _snapshot(row: SnapshotRow, done: Pass, chunks: ChunkMap, recipe: Recipe) -> Tensor:
    if row.source is SnapshotSource.FINAL:
        return done.final[row.sequence]
    state = done.starts[chunks.row(row.sequence, row.chunk)]
    return round_to(state, recipe.chunk_state, recipe.rounding) if row.source is SnapshotSource.CHUNK_STATE else state


CHUNK_EMULATOR = StateKernel("ours/chunk-emulator", "chunk", frozenset(SnapshotSource), None, forward)
