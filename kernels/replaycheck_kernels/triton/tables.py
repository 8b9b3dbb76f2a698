"""What a call names, as int32 tensors for the kernels: tokens of chunks, slots of sequences, rows of snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

CHUNK = 64


def integers(values: Sequence[int], device: torch.device | str) -> Tensor:
    """[n] int32 on ``device``, not to be written to: the layers of a pass ask for the same ones, and get one copy.

    The host doesn't wait for it.
    """
    return _integers(tuple(values), torch.device(device))


@lru_cache(maxsize=256)
def _integers(values: tuple[int, ...], device: torch.device) -> Tensor:
    host = torch.tensor(values, dtype=torch.int32)
    if device.type != "cuda":
        return host
    return host.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Layout:
    """How packed sequences fall into chunks that count from each sequence's start.

    Attributes:
        offsets: [R + 1] token offsets. firsts: [R] first chunk of each sequence.
        chunks: [B, 2] first token and number of tokens of each chunk.
    """

    offsets: Tensor
    firsts: Tensor
    chunks: Tensor

    @property
    def sequences(self) -> int:
        return self.firsts.shape[0]


@lru_cache(maxsize=64)
def layout(offsets: tuple[int, ...], device: torch.device) -> Layout:
    """The layout of a pack; kept, as an engine would keep its own for the layers of a model."""
    firsts, chunks = [], []
    for begin, end in pairwise(offsets):
        firsts.append(len(chunks) // 2)
        for token in range(begin, end, CHUNK):
            chunks += [token, min(CHUNK, end - token)]
    return Layout(integers(offsets, device), integers(firsts, device), integers(chunks, device).view(-1, 2))


@dataclass(frozen=True)
class Slots:
    """Where states come from and go to.

    Attributes:
        sources: [R] slot of each sequence's initial state; −1 starts from zero.
        destinations: [R] slot of each sequence's final state; −1 stores none.
        seeds: [R] of the sequences' stochastic roundings.
        stochastic: round states to the pool's dtype at random, each element up or down by its distance; else to nearest.
    """

    sources: Tensor
    destinations: Tensor
    seeds: Tensor
    stochastic: bool = False


def slots(
    sources: Sequence[int],
    destinations: Sequence[int],
    device: torch.device | str,
    seeds: Sequence[int] | None = None,
) -> Slots:
    """``seeds`` given means stochastic rounding."""
    drawn = integers(seeds or [0] * len(sources), device)
    return Slots(integers(sources, device), integers(destinations, device), drawn, seeds is not None)


@dataclass(frozen=True)
class Taps:
    """Snapshots of the fp32 accumulator.

    Attributes:
        rows: [B], or [N] for the recurrent form: row of ``states`` for the state at the chunk's (before the token's)
            start; −1 for none.
        states: [rows, HV, V, K] fp32, written by the kernel.
    """

    rows: Tensor
    states: Tensor


def taps(places: Sequence[int], count: int, shape: Sequence[int], device: torch.device | str) -> Taps:
    """Row i of the snapshots is taken at ``places[i]`` of ``count`` chunks or tokens; places are distinct.

    Args:
        shape: (HV, V, K).
    """
    rows = [-1] * count
    for row, place in enumerate(places):
        rows[place] = row
    return Taps(integers(rows, device), torch.empty((len(places), *shape), dtype=torch.float32, device=device))
