"""Inside a chunk: the decayed score matrices q·k and k·k, and the inverse of the unit lower triangle.

Only ratios 2^(G_i − G_j) appear, so any reference may be subtracted from both exponents; it cancels in exact arithmetic
and not after rounding. Off-diagonal sub-chunk blocks use the decay at the first token of the block's rows, so both
exponents are ≤ 0. Diagonal blocks follow ``Recipe.diagonal``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .precision import round_to
from .recipe import Recipe

_CLAMP = 126.0
"""Largest exponent of 2 that a reference form may produce in fp32 (engines clamp to ±126)."""


def exponential(x: Tensor, recipe: Recipe) -> Tensor:
    """2^x or e^x: cumulative decays are kept in the unit of the recipe's base."""
    return torch.exp2(x) if recipe.exp_base == "2" else torch.exp(x)


def scores(q: Tensor, k: Tensor, G: Tensor, counts: list[int], recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Decayed k·k and q·k, unscaled and without beta.

    Args:
        q, k: [B, H, C, K] normalised. G: [B, H, C, K] cumulative log decay. counts: tokens of each chunk.

    Returns:
        Two [B, H, C, C]; entries above the diagonal are meaningless and masked by the caller.
    """
    C, sub = recipe.chunk, recipe.sub_chunk
    kk = q.new_zeros((*q.shape[:2], C, C))
    qk = torch.zeros_like(kk)
    for top in range(0, C, sub):
        rows = slice(top, top + sub)
        kk[:, :, rows, rows], qk[:, :, rows, rows] = _diagonal(
            q[:, :, rows], k[:, :, rows], G[:, :, rows], counts, top, recipe
        )
        if top:
            kk[:, :, rows, :top], qk[:, :, rows, :top] = _left(q, k, G, top, recipe)
    return kk, qk


def _left(q: Tensor, k: Tensor, G: Tensor, top: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The blocks left of the diagonal for the sub-chunk of rows that begins at ``top``: [B, H, sub, top]."""
    rows = slice(top, top + recipe.sub_chunk)
    reference = G[:, :, top : top + 1]

    def operand(x: Tensor) -> Tensor:
        return round_to(x, recipe.intra_operand, recipe.rounding).flatten(0, 1)

    grown = exponential(G[:, :, rows] - reference, recipe)
    right = operand(k[:, :, :top] * exponential(reference - G[:, :, :top], recipe)).transpose(1, 2)
    shape = (*q.shape[:2], recipe.sub_chunk, top)
    kk = torch.bmm(operand(k[:, :, rows] * grown), right).view(shape)
    return kk, torch.bmm(operand(q[:, :, rows] * grown), right).view(shape)


def _diagonal(q: Tensor, k: Tensor, G: Tensor, counts: list[int], top: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """One diagonal block per chunk: [B, H, sub, sub]."""
    if recipe.diagonal == "direct":
        return _pairwise(q, k, G, recipe)
    reference = _reference(G, counts, top, recipe)
    limit = _CLAMP if recipe.exp_base == "2" else _CLAMP * 0.6931471805599453
    grown = exponential((G - reference).clamp(-limit, limit), recipe)
    shrunk = exponential((reference - G).clamp(-limit, limit), recipe)

    def operand(x: Tensor) -> Tensor:
        return round_to(x, recipe.diagonal_operand, recipe.rounding).flatten(0, 1)

    right = operand(k * shrunk).transpose(1, 2)
    shape = (*q.shape[:2], recipe.sub_chunk, recipe.sub_chunk)
    return torch.bmm(operand(k * grown), right).view(shape), torch.bmm(operand(q * grown), right).view(shape)


def _pairwise(q: Tensor, k: Tensor, G: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Each pair's own difference of decays, in full precision; one column j at a time."""
    sub = recipe.sub_chunk
    kk, qk = q.new_zeros((*q.shape[:2], sub, sub)), q.new_zeros((*q.shape[:2], sub, sub))
    for j in range(sub):
        below = slice(j, sub)
        decayed = k[:, :, j : j + 1] * exponential(G[:, :, below] - G[:, :, j : j + 1], recipe)
        kk[:, :, below, j] = (k[:, :, below] * decayed).sum(-1)
        qk[:, :, below, j] = (q[:, :, below] * decayed).sum(-1)
    return kk, qk


def _reference(G: Tensor, counts: list[int], top: int, recipe: Recipe) -> Tensor:
    """[B, H, 1, K]: the decay of the sub-chunk's first token, or of token min(8, remaining − 1) of it."""
    if recipe.diagonal == "first":
        return G[:, :, :1]
    at = [max(0, min(recipe.sub_chunk // 2, count - top - 1)) for count in counts]
    return torch.stack([G[b, :, i : i + 1] for b, i in enumerate(at)])


def inverse(A: Tensor, recipe: Recipe) -> Tensor:
    """(I + A)^-1 of strictly lower triangular A [B, H, C, C]: forward substitution in sub-chunk blocks, then merges.

    The merge of a block row is X[i, :i] = −X[i, i] · A[i, :i] · X[:i, :i], with operands in ``inverse_merge``.
    """
    sub, C = recipe.sub_chunk, recipe.chunk
    X = torch.zeros_like(A)

    def operand(x: Tensor) -> Tensor:
        return round_to(x, recipe.inverse_merge, recipe.rounding).flatten(0, 1)

    for top in range(0, C, sub):
        rows = slice(top, top + sub)
        X[:, :, rows, rows] = _substitute(A[:, :, rows, rows])
        if top:
            inner = torch.bmm(operand(A[:, :, rows, :top]), operand(X[:, :, :top, :top])).unflatten(0, A.shape[:2])
            X[:, :, rows, :top] = -torch.bmm(operand(X[:, :, rows, rows]), operand(inner)).unflatten(0, A.shape[:2])
    return X


def _substitute(A: Tensor) -> Tensor:
    """Forward substitution of (I + A) X = I for small blocks [B, H, n, n]: row i is e_i − Σ_j<i A[i, j] X[j]."""
    n = A.shape[-1]
    X = torch.eye(n, dtype=A.dtype, device=A.device).expand_as(A).clone()
    for i in range(1, n):
        X[:, :, i] -= (A[:, :, i, :i, None] * X[:, :, :i]).sum(2)
    return X
