"""What arms said: numbers of each different row of logits, computed once for all arms that have it.

Arms often agree in every bit: warm with split-rounded always, and whatever shares a prefix and a kernel. Rows are told apart
by their bits; a 64-bit sum finds candidates, and every row is then compared with the one that stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.errors import InternalError
from replaycheck.schema.tables import OBSERVATIONS

from .logits import blocks, digests, log_softmax, margins, top1
from .scored import Scored
from .top import TOP, TopLogprobs

__all__ = ["TOP", "Said"]

KEPT_BYTES = 2**26
"""Log-probabilities of all different rows are kept if they fit in this, and computed again in blocks if not."""

Rows = NDArray[np.int64]
Wide = NDArray[np.float64]


@dataclass(frozen=True)
class Said:
    """Different rows [u] of (logits, token) of some arms.

    Attributes:
        row: by arm, the number of each of its rows [n]. Equal numbers mean equal bits and the same token.
        logits: [u, vocabulary]. tokens: [u]. best: [u] top-1 token, -1 without a distribution.
        wide: [u, vocabulary] log-probabilities, if they fit.
        shown: [u] what a subject without logits said; ``logits`` are then its packed rows, and no numbers.
    """

    row: dict[str, Rows]
    logits: NDArray[np.float32]
    tokens: NDArray[np.int32]
    best: NDArray[np.int32]
    margin: Wide
    logprob: Wide
    best_logprob: Wide
    wide: Wide | None
    shown: TopLogprobs | None = None

    @classmethod
    def of(cls, arms: Sequence[Scored]) -> Said:
        row, logits, tokens = _different(arms)
        if any(arm.partial for arm in arms):
            _refuse_mixed(arms)
            top = TopLogprobs.unpacked(logits)
            return cls(row, logits, tokens, top.best, top.margin, top.token, top.best_logprob, None, top)
        best, wide = top1(logits), None
        logprob, best_logprob = np.empty(len(best)), np.empty(len(best))
        keep = 8 * logits.size <= KEPT_BYTES
        for block in blocks(*logits.shape):
            found = log_softmax(logits[block])
            at = np.arange(len(found))
            logprob[block] = found[at, tokens[block]]
            best_logprob[block] = found[at, np.maximum(best[block], 0)]
            if keep:
                wide = found if wide is None else np.concatenate([wide, found])
        return cls(
            row, logits, tokens, best, margins(logits) if len(best) else np.empty(0), logprob, best_logprob, wide
        )

    def log_softmax(self, rows: Rows) -> Wide:
        """Log-probabilities of these rows, nat, float64."""
        return self.wide[rows] if self.wide is not None else log_softmax(self.logits[rows])

    def digests(self) -> pa.Array:
        """[u] of the logits; null where they aren't shown."""
        return pa.nulls(len(self.tokens), pa.string()) if self.shown else pa.array(digests(self.logits), pa.string())

    def missing(self) -> NDArray[np.bool_]:
        """[u] rows about which the subject said nothing."""
        return self.shown.missing if self.shown else np.zeros(len(self.tokens), np.bool_)

    def top(self) -> pa.ChunkedArray:
        """[u] the best ``TOP`` tokens of each row, best first, the lowest id first among equal ones; null if missing."""
        if self.shown:
            return pa.chunked_array([_listed(self.shown)], type=OBSERVATIONS.field("top20").type)
        kept = [self._top(np.arange(block.start, block.stop)) for block in blocks(*self.logits.shape)]
        return pa.chunked_array(kept, type=OBSERVATIONS.field("top20").type)

    def _top(self, rows: Rows) -> pa.ListArray:
        order = np.argsort(-self.logits[rows], axis=1, kind="stable")[:, :TOP]
        values = np.take_along_axis(self.log_softmax(rows), order, axis=1)
        entries = pa.StructArray.from_arrays(
            [pa.array(order.ravel(), type=pa.int32()), pa.array(values.ravel(), from_pandas=True)], ["id", "logprob"]
        )
        offsets = np.arange(0, order.size + 1, order.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, entries)


def _refuse_mixed(arms: Sequence[Scored]) -> None:
    if not all(arm.partial or not len(arm) for arm in arms):
        whole = next(arm.arm for arm in arms if not arm.partial)
        raise InternalError(f"arm {whole!r} has logits and another one only some log-probabilities; record one kind")


def _listed(top: TopLogprobs) -> pa.ListArray:
    """[u] lists of what was said; a position of which nothing was said has null."""
    kept = top.ids >= 0
    entries = pa.StructArray.from_arrays(
        [pa.array(top.ids[kept], pa.int32()), pa.array(top.logprobs[kept], from_pandas=True)], ["id", "logprob"]
    )
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    offsets = pa.array(ends, pa.int32(), mask=np.append(top.missing, False))
    return pa.ListArray.from_arrays(offsets, entries)


def _different(arms: Sequence[Scored]) -> tuple[dict[str, Rows], NDArray[np.float32], NDArray[np.int32]]:
    """By arm the number of each row's group of equal ones; logits and token of each group."""
    sums = np.concatenate([_sums(arm) for arm in arms]) if arms else np.empty(0, np.uint64)
    _, first, number = np.unique(sums, return_index=True, return_inverse=True)
    ends = np.cumsum([len(arm) for arm in arms])
    row = (
        dict(zip((arm.arm for arm in arms), np.split(number.astype(np.int64), ends[:-1]), strict=True)) if arms else {}
    )
    logits, tokens = _at(arms, first)
    for arm in arms:
        mine = row[arm.arm]
        if not (_same_bits(arm.logits, logits[mine]).all() and np.array_equal(arm.tokens, tokens[mine])):
            # Two rows with one sum: 1 in 2^64 a pair. Then every row stands for itself.
            everything = np.arange(len(sums))
            return dict(zip(row, np.split(everything, ends[:-1]), strict=True)), *_at(arms, everything)
    return row, logits, tokens


def _sums(arm: Scored) -> NDArray[np.uint64]:
    """[rows] one number of a row's bits and its token, wrapped at 2^64."""
    bits = np.ascontiguousarray(arm.logits, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        return np.asarray(bits @ _weights(bits.shape[1]) + arm.tokens.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93))


def _weights(n: int) -> NDArray[np.uint64]:
    """Odd numbers with bits all over."""
    return np.random.default_rng(1).integers(0, 2**63, n, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _at(arms: Sequence[Scored], rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Logits and tokens of rows that are counted through all arms."""
    if not arms:
        return np.empty((0, 1), np.float32), np.empty(0, np.int32)
    width = max(arm.logits.shape[1] for arm in arms)
    logits, tokens = np.empty((len(rows), width), np.float32), np.empty(len(rows), np.int32)
    begin = 0
    for arm in arms:
        here = np.flatnonzero((rows >= begin) & (rows < begin + len(arm)))
        if len(here):
            logits[here], tokens[here] = arm.logits[rows[here] - begin], arm.tokens[rows[here] - begin]
        begin += len(arm)
    return logits, tokens


def _same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.bool_]:
    """[n] whether all logits of a row have the same bits: -0 isn't 0, and a NaN is itself."""
    bits_a = np.ascontiguousarray(a, dtype=np.float32).view(np.uint32)
    bits_b = np.ascontiguousarray(b, dtype=np.float32).view(np.uint32)
    return np.asarray((bits_a == bits_b).all(axis=1))
