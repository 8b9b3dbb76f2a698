"""What a server says instead of logits: the log-probability of a position's token, and those of some best ones.

What it left out is missing, and is never taken for 0: NaN and a mask here, null in a table. An engine that says NaN where it
should say a number is another thing: the position was answered, with no number. The arrays pack into 32-bit words, so that
rows which say the same are found as rows of equal logits are, by their bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "TOP", "TopLogprobs", "joined"]

TOP = 20
"""Alternatives that a recording keeps: what engines return at most, so recordings stay comparable."""

NOTHING = -1
"""No entry: an id that no token has."""

Entry = tuple[float | None, Mapping[int, float]]
"""Of one position: its token's log-probability (None: not said; NaN: said so), and those of the best tokens."""


@dataclass(frozen=True)
class TopLogprobs:
    """Log-probabilities of n positions, nat.

    Attributes:
        token: [n] of the position's own token; NaN: not said, or no number.
        ids: [n, k] best tokens, best first, the lowest id first of equal ones; -1: none.
        logprobs: [n, k] of these; NaN: none, or no number.
        missing: [n] nothing was said about the position's own token; the best ones may be there all the same.
        chosen: [n] the token that greedy decoding took, where that alone is known of the best ones; -1: not known.
    """

    token: NDArray[np.float64]
    ids: NDArray[np.int32]
    logprobs: NDArray[np.float64]
    missing: NDArray[np.bool_]
    chosen: NDArray[np.int32]

    @classmethod
    def of(cls, entries: Sequence[Entry | None], chosen: Sequence[int] | None = None) -> TopLogprobs:
        """From one entry a position. An empty list of best tokens says nothing, whatever stands beside it: engines write
        0.0 there for tokens that they didn't score (llama.cpp for accepted drafts).

        ``chosen``: the tokens that greedy decoding took; they count where an entry says no best tokens.
        """
        kept = [None if entry is None or not entry[1] else entry for entry in entries]
        width = max((len(entry[1]) for entry in kept if entry), default=0)
        made = cls.nothing(len(kept), width)
        for row, entry in enumerate(kept):
            if entry is None:
                made.chosen[row] = NOTHING if chosen is None else chosen[row]
                continue
            if entry[0] is not None:
                made.missing[row] = False
                made.token[row] = entry[0]
            best = sorted(entry[1].items(), key=lambda each: (-_least(each[1]), each[0]))
            made.ids[row, : len(best)] = [token for token, _ in best]
            made.logprobs[row, : len(best)] = [value for _, value in best]
        return made

    @classmethod
    def nothing(cls, rows: int, width: int) -> TopLogprobs:
        """So many positions of which nothing is known."""
        return cls(
            np.full(rows, np.nan),
            np.full((rows, width), NOTHING, np.int32),
            np.full((rows, width), np.nan),
            np.ones(rows, np.bool_),
            np.full(rows, NOTHING, np.int32),
        )

    def __len__(self) -> int:
        return len(self.token)

    def __getitem__(self, rows: slice | NDArray[np.generic]) -> TopLogprobs:
        return TopLogprobs(self.token[rows], self.ids[rows], self.logprobs[rows], self.missing[rows], self.chosen[rows])

    @property
    def width(self) -> int:
        """Best tokens of a position, at most."""
        return int(self.ids.shape[1])

    @property
    def best(self) -> NDArray[np.int32]:
        """[n] the most likely token; -1 where none was said with a number, and none was chosen either."""
        if not self.width:
            return self.chosen
        return np.where(np.isnan(self.logprobs[:, 0]), self.chosen, self.ids[:, 0])

    @property
    def best_logprob(self) -> NDArray[np.float64]:
        """[n] nat, of ``best``; NaN without one."""
        return self.logprobs[:, 0] if self.width else np.full(len(self), np.nan)

    @property
    def margin(self) -> NDArray[np.float64]:
        """[n] nat, best minus second best; NaN where fewer than two were said."""
        if self.width < 2:
            return np.full(len(self), np.nan)
        with np.errstate(invalid="ignore"):
            return self.logprobs[:, 0] - self.logprobs[:, 1]

    def of_width(self, width: int) -> TopLogprobs:
        """The same with ``width`` best tokens: those that are too many go, room for more is empty."""
        more = ((0, 0), (0, max(0, width - self.width)))
        return TopLogprobs(
            self.token,
            np.pad(self.ids[:, :width], more, constant_values=NOTHING),
            np.pad(self.logprobs[:, :width], more, constant_values=np.nan),
            self.missing,
            self.chosen,
        )

    def packed(self) -> NDArray[np.float32]:
        """[n, 4 + 3·k] the words of a row, for :meth:`unpacked`; not numbers to compute with."""
        words = [self.token[:, None].view(np.uint32), self.missing[:, None].astype(np.uint32)]
        words += [self.chosen[:, None].view(np.uint32), self.ids.view(np.uint32)]
        words += [np.ascontiguousarray(self.logprobs).view(np.uint32)]
        return np.ascontiguousarray(np.concatenate(words, axis=1)).view(np.float32)

    @classmethod
    def unpacked(cls, words: NDArray[np.float32]) -> TopLogprobs:
        """From the rows [n, …] of :meth:`packed`."""
        bits = np.ascontiguousarray(words).view(np.uint32)
        k = (bits.shape[1] - 4) // 3
        token, missing, chosen, ids, logprobs = np.split(bits, [2, 3, 4, 4 + k], axis=1)
        return cls(
            np.ascontiguousarray(token).view(np.float64)[:, 0],
            np.ascontiguousarray(ids).view(np.int32),
            np.ascontiguousarray(logprobs).view(np.float64),
            missing[:, 0].astype(np.bool_),
            np.ascontiguousarray(chosen).view(np.int32)[:, 0],
        )


def joined(parts: Sequence[TopLogprobs]) -> TopLogprobs:
    """The positions of all parts, one after the other, each with ``TOP`` best tokens, so that any two can be compared."""
    wide = [TopLogprobs.nothing(0, TOP), *(part.of_width(TOP) for part in parts)]
    return TopLogprobs(
        np.concatenate([part.token for part in wide]),
        np.concatenate([part.ids for part in wide]),
        np.concatenate([part.logprobs for part in wide]),
        np.concatenate([part.missing for part in wide]),
        np.concatenate([part.chosen for part in wide]),
    )


def _least(value: float) -> float:
    """NaN sorts last."""
    return float("-inf") if np.isnan(value) else value
