"""The columns of a pass: packed tokens, and beside them columns of padding that mixers never see.

Norms, projections after a mixer and the MLP run on all columns, row by row. Before a convolution, a state kernel or
attention the masked columns are taken out, and put back as zeros after it, as engines do that unpad a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from replaycheck.schedule.steps import PAD

__all__ = ["Columns", "columns_of"]


class Padded(Protocol):
    """A row with ``left`` and ``right`` masked columns beside its tokens."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def left(self) -> int: ...
    @property
    def right(self) -> int: ...


@dataclass(frozen=True)
class Columns:
    """ids: token ids of all columns. seen: [N] the columns that are tokens, in order; None: all are."""

    ids: list[int]
    seen: Tensor | None

    def take(self, x: Tensor) -> Tensor:
        """[columns, D] → [N, D], the tokens alone."""
        return x if self.seen is None else x[self.seen]

    def put(self, y: Tensor) -> Tensor:
        """[N, D] → [columns, D], zeros where padding is."""
        if self.seen is None:
            return y
        return y.new_zeros((len(self.ids), *y.shape[1:])).index_copy(0, self.seen, y)


def columns_of(rows: Sequence[Padded], device: torch.device) -> Columns:
    """The columns of packed rows."""
    ids: list[int] = []
    seen: list[int] = []
    for row in rows:
        first = len(ids) + row.left
        ids += (*(PAD,) * row.left, *row.tokens, *(PAD,) * row.right)
        seen += range(first, first + len(row.tokens))
    return Columns(ids, torch.tensor(seen, device=device) if len(seen) < len(ids) else None)
