"""From a block of fp32 logits to the numbers that are recorded, all in float64.

A row that has no distribution (a NaN or +infinity, or no finite logit) gives NaN and top-1 token -1; -infinity alone is
a masked token with probability 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

__all__ = ["blocks", "digests", "kl", "log_softmax", "margins", "top1"]

Logits = NDArray[np.float32]
Wide = NDArray[np.float64]

_BLOCK_BYTES = 64 * 2**20
"""Rows are worked on in blocks whose float64 copy takes this much: 50 rows of a vocabulary of 163,840 tokens."""


def blocks(rows: int, vocabulary: int) -> Iterator[slice]:
    """Slices that cover ``rows`` in blocks of bounded memory."""
    step = max(1, _BLOCK_BYTES // (8 * vocabulary))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _valid(logits: Logits) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(logits.max(axis=1)))


def log_softmax(logits: Logits) -> Wide:
    """Log-probabilities, nat: [n, vocabulary] fp32 → [n, vocabulary] float64; NaN in rows without a distribution."""
    valid = _valid(logits)
    wide = np.where(valid[:, None], logits, np.nan).astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.asarray(shifted)


def top1(logits: Logits) -> NDArray[np.int32]:
    """[n] token with the largest logit, the lowest id of equal ones; -1 in rows without a distribution."""
    return np.where(_valid(logits), logits.argmax(axis=1), -1).astype(np.int32)


def margins(logits: Logits) -> Wide:
    """[n] best minus second best, nat, exact: the normaliser cancels; NaN in rows without a distribution."""
    best = np.partition(logits.astype(np.float64), -2, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):
        return np.where(_valid(logits), best[:, 1] - best[:, 0], np.nan)


def kl(reference: Wide, candidate: Wide) -> Wide:
    """[n] KL(reference ‖ candidate), nat, of log-probabilities [n, vocabulary]; a token of probability 0 adds 0.

    The sum of p·(a − b) has terms of both signs that cancel; p·(expm1(b − a) − (b − a)) has the same sum, since
    probabilities add up to 1, and no term is negative (at a difference of 1e-5 nat the plain form is all noise).
    """
    impossible = np.isneginf(reference)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = np.where(impossible, 0.0, candidate - reference)
        terms = np.exp(reference) * (np.expm1(ratio) - ratio)
    appeared = np.where(impossible, np.exp(candidate), 0.0)
    return np.asarray((terms + appeared).sum(axis=1))


def digests(logits: Logits) -> list[str]:
    """[n] blake2b-64 of each row's little-endian fp32 bytes, as hex."""
    rows = np.ascontiguousarray(logits, dtype="<f4")
    return [blake2b(row.data, digest_size=8).hexdigest() for row in rows]
