"""Inside a chunk: the decayed score matrices q·k and k·k, and the inverse of the unit lower triangle.

Only ratios 2^(G_i − G_j) appear, so any reference may be subtracted from both exponents; it cancels in exact arithmetic
and not after rounding. Off-diagonal sub-chunk blocks use the decay at the first token of the block's rows, so both
exponents are ≤ 0. Diagonal blocks follow ``Recipe.diagonal`` or ``Recipe.safe_diagonal``. With one decay a head the ratio
can multiply the finished product instead (``head_scores``), which needs no reference.
"""

from __future__ import annotations

from functools import partial
from math import inf, log

import torch
from torch import Tensor

from .activation import padded
from .precision import Precision, round_to
from .recipe import Diagonal, Recipe

_CLAMP = 126.0
"""Largest exponent of 2 that a reference form may produce in fp32 (SGLang 0.5.23 clamps to ±126). With a lower bound of −5
none comes near: 108 from the first token, 58 from the middle, 87 from the shifted reference."""


def exponential(x: Tensor, recipe: Recipe) -> Tensor:
    """2^x or e^x of x [...]: cumulative decays are kept in the unit of the recipe's base.

    With one decay a head (last axis 1) a slice isn't a multiple of the vector width, so it is padded: see ``padded``.
    """
    function = torch.exp2 if recipe.exp_base == "2" else torch.exp
    return padded(function, x) if x.shape[-1] == 1 else function(x)


def scores(
    q: Tensor, k: Tensor, G: Tensor, counts: list[int], recipe: Recipe, bounded: bool = False
) -> tuple[Tensor, Tensor]:
    """Decayed k·k and q·k, unscaled and without beta.

    Args:
        q, k: [B, H, C, K] normalised. G: [B, H, C, K] or [B, H, C, 1] cumulative log decay.
        counts: tokens of each chunk. bounded: the decay has a lower bound.

    Returns:
        Two [B, H, C, C]; entries above the diagonal are meaningless and masked by the caller.
    """
    C, sub = recipe.chunk, recipe.sub_chunk
    form = recipe.diagonal_form(bounded)
    kk = q.new_zeros((*q.shape[:2], C, C))
    qk = torch.zeros_like(kk)
    for top in range(0, C, sub):
        rows = slice(top, top + sub)
        kk[:, :, rows, rows], qk[:, :, rows, rows] = _diagonal(
            q[:, :, rows], k[:, :, rows], G[:, :, rows], counts, top, recipe, form
        )
        if top:
            kk[:, :, rows, :top], qk[:, :, rows, :top] = _left(q, k, G, top, recipe)
    return kk, qk


def head_scores(q: Tensor, k: Tensor, G: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The same with one decay a head, G [B, H, C, 1], multiplied to the fp32 products (GDN kernels of fla and SGLang).

    Above the diagonal ratios overflow from 88 nat on; the caller's ``tril`` drops those entries, whatever they are.
    """
    ratio = exponential(G - G.transpose(2, 3), recipe)

    operand = partial(_operand, precision=recipe.intra_operand, recipe=recipe)
    right = operand(k).transpose(1, 2)
    kk, qk = (torch.bmm(operand(left), right).unflatten(0, q.shape[:2]) for left in (k, q))
    return kk * ratio, qk * ratio


def _operand(x: Tensor, precision: Precision, recipe: Recipe) -> Tensor:
    """x [B, H, …] as it enters a batch of products, [B·H, …]."""
    return round_to(x, precision, recipe.rounding_of(precision)).flatten(0, 1)


def _left(q: Tensor, k: Tensor, G: Tensor, top: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The blocks left of the diagonal for the sub-chunk of rows that begins at ``top``: [B, H, sub, top]."""
    rows = slice(top, top + recipe.sub_chunk)
    reference = G[:, :, top : top + 1]

    operand = partial(_operand, precision=recipe.intra_operand, recipe=recipe)
    grown = exponential(G[:, :, rows] - reference, recipe)
    right = operand(k[:, :, :top] * exponential(reference - G[:, :, :top], recipe)).transpose(1, 2)
    shape = (*q.shape[:2], recipe.sub_chunk, top)
    kk = torch.bmm(operand(k[:, :, rows] * grown), right).view(shape)
    return kk, torch.bmm(operand(q[:, :, rows] * grown), right).view(shape)


def _diagonal(
    q: Tensor, k: Tensor, G: Tensor, counts: list[int], top: int, recipe: Recipe, form: Diagonal
) -> tuple[Tensor, Tensor]:
    """One diagonal block per chunk: [B, H, sub, sub]."""
    if form == "direct":
        return _pairwise(q, k, G, recipe)
    reference = _reference(G, counts, top, recipe, form)
    limit = _CLAMP * _unit(recipe)
    least = -inf if form == "fused" and top else -limit
    grown = exponential((G - reference).clamp(least, limit), recipe)
    shrunk = exponential((reference - G).clamp(-limit, limit), recipe)
    operand = partial(_operand, precision=recipe.diagonal_operand, recipe=recipe)
    right = operand(k * shrunk).transpose(1, 2)
    shape = (*q.shape[:2], recipe.sub_chunk, recipe.sub_chunk)
    return torch.bmm(operand(k * grown), right).view(shape), torch.bmm(operand(q * grown), right).view(shape)


def _unit(recipe: Recipe) -> float:
    """A factor 2 as a cumulative decay: 1 for exp2, ln 2 for exp."""
    return 1.0 if recipe.exp_base == "2" else log(2)


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


def _reference(G: Tensor, counts: list[int], top: int, recipe: Recipe, form: Diagonal) -> Tensor:
    """[B, H, 1, K or 1]: what ``Recipe.diagonal`` says, for the sub-chunk G [B, H, sub, K or 1] that begins at ``top``."""
    if form == "middle":
        at = [max(0, min(recipe.sub_chunk // 2, count - top - 1)) for count in counts]
        return torch.stack([G[b, :, i : i + 1] for b, i in enumerate(at)])
    if form == "shifted":
        nats = (recipe.sub_chunk - 1) * recipe.diagonal_shift / 2
        return G[:, :, :1] - nats / log(2) * _unit(recipe)
    return G[:, :, :1]


def inverse(A: Tensor, recipe: Recipe) -> Tensor:
    """(I + A)^-1 of strictly lower triangular A [B, H, C, C]: forward substitution in sub-chunk blocks, then merges.

    The merge of a block row is X[i, :i] = −X[i, i] · A[i, :i] · X[:i, :i], with operands in ``inverse_merge``.
    """
    sub, C = recipe.sub_chunk, recipe.chunk
    X = torch.zeros_like(A)

    def product(x: Tensor, y: Tensor) -> Tensor:
        rounding = recipe.rounding_of(recipe.inverse_merge)
        x, y = (round_to(z, recipe.inverse_merge, rounding).flatten(0, 1) for z in (x, y))
        shape = (A.shape[0], A.shape[1], x.shape[1], y.shape[2])
        return torch.bmm(x, y).view(shape)

    for top in range(0, C, sub):
        rows, beside = slice(top, top + sub), slice(top - sub, top)
        X[:, :, rows, rows] = corner = _substitute(A[:, :, rows, rows])
        if top:
            X[:, :, rows, :top] = -product(corner, product(A[:, :, rows, :top], X[:, :, :top, :top]))
        if top and recipe.merge_first == "left":
            X[:, :, rows, beside] = -product(product(corner, A[:, :, rows, beside]), X[:, :, beside, beside])
    return X


def _substitute(A: Tensor) -> Tensor:
    """Forward substitution of (I + A) X = I for small blocks [B, H, n, n]: row i is e_i − Σ_j<i A[i, j] X[j]."""
    n = A.shape[-1]
    X = torch.eye(n, dtype=A.dtype, device=A.device).expand_as(A).clone()
    for i in range(1, n):
        X[:, :, i] -= (A[:, :, i, :i, None] * X[:, :, :i]).sum(2)
    return X
