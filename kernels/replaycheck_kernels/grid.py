"""The chunk grid of a sequence, as integers: where its chunks start, and which packed tokens they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .recipe import Recipe

if TYPE_CHECKING:  # the contract checks snapshots against the grid
    from .contract import KdaInputs


def chunk_starts(length: int, start: int, recipe: Recipe) -> list[int]:
    """Offsets of the chunks of an extend of ``length`` tokens that begins at absolute position ``start``.

    The grid counts from the start of the extend, as in SGLang and fla; a recipe with an absolute grid makes the first
    chunk short, so that later ones begin at multiples of the chunk.
    """
    first = recipe.chunk - start % recipe.chunk if recipe.grid_origin == "absolute" else recipe.chunk
    return [0, *range(first, length, recipe.chunk)]


@dataclass(frozen=True)
class ChunkMap:
    """How packed tokens fall into chunks.

    Attributes:
        tokens: [chunks, C] index of the packed token; N (one past the last) where the chunk has no token.
        first: first chunk of each sequence, in the order of the sequences; one more entry at the end.
    """

    tokens: Tensor
    first: tuple[int, ...]

    def row(self, sequence: int, chunk: int) -> int:
        return self.first[sequence] + chunk

    def count(self, sequence: int) -> int:
        return self.first[sequence + 1] - self.first[sequence]


def chunk_map(inputs: KdaInputs, recipe: Recipe) -> ChunkMap:
    """Lay the packed sequences out in chunks of ``recipe.chunk`` tokens."""
    total = inputs.offsets[-1]
    rows: list[list[int]] = []
    first = [0]
    for sequence, length in enumerate(inputs.lengths()):
        starts = chunk_starts(length, inputs.start(sequence), recipe)
        for begin, end in zip(starts, [*starts[1:], length], strict=True):
            tokens = [inputs.offsets[sequence] + t for t in range(begin, end)]
            rows.append(tokens + [total] * (recipe.chunk - len(tokens)))
        first.append(len(rows))
    return ChunkMap(torch.tensor(rows, dtype=torch.long, device=inputs.q.device), tuple(first))
