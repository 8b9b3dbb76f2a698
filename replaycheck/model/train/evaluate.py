"""Bits per byte on the held-out blocks, and how it depends on the distance from the start."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.model.train.batches import BLOCK, Corpus
from replaycheck.model.train.network import Network
from replaycheck.traces import vocabulary

__all__ = ["HeldOut", "evaluate"]

# Bounds memory: 65,536 positions × 144 logits in fp32 are 38 MB.
_POSITIONS_AT_ONCE: Final = 65_536


@dataclass(frozen=True)
class HeldOut:
    """``bits_per_byte`` is the loss of all targets, special tokens too, divided by the number of text bytes.

    ``bits_by_position`` splits the same windows at powers of two: first position → bits per byte from there.
    """

    window: int
    tokens: int
    text_bytes: int
    bits_per_byte: float
    bits_by_position: dict[int, float]


@torch.no_grad()
def evaluate(network: Network, weights: Mapping[str, Tensor], corpus: Corpus, window: int) -> HeldOut:
    """Score every held-out block in windows of ``window`` targets, each from a zero state.

    Raises :class:`UsageError` when the corpus holds nothing out.
    """
    nats = torch.zeros(window, dtype=torch.float64)
    texts = torch.zeros(window, dtype=torch.int64)
    rows = 0
    for inputs, targets in _windows(corpus, window):
        nats += network.losses(weights, inputs, targets).double().sum(0).cpu()
        texts += (targets < vocabulary.TEXT_SIZE).sum(0).cpu()
        rows += len(targets)
    if not rows:
        raise UsageError(f"the corpus has {len(corpus.tokens)} tokens, too few for a held-out block of {BLOCK}")
    edges = [0, *(2**power for power in range(8, window.bit_length()) if 2**power < window), window]
    by_position = {begin: _bits(nats[begin:end], texts[begin:end]) for begin, end in pairwise(edges)}
    return HeldOut(window, rows * window, int(texts.sum()), _bits(nats, texts), by_position)


def _bits(nats: Tensor, texts: Tensor) -> float:
    return round(float(nats.sum()) / math.log(2) / max(1, int(texts.sum())), 5)


def _windows(corpus: Corpus, window: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets [rows, window]; what is left of a block after whole windows is not scored."""
    fit = (BLOCK - 1) // window
    rows = [corpus.tokens[block + i * window :][: window + 1] for block in corpus.held_out for i in range(fit)]
    at_once = max(1, _POSITIONS_AT_ONCE // window)
    for first in range(0, len(rows), at_once):
        sample = torch.stack(rows[first : first + at_once]).long()
        yield sample[:, :-1], sample[:, 1:]
