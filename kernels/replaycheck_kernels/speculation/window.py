"""A batch of speculation windows: R requests, each with up to Q = 1 + d tokens, padded to Q.

The lengths are a tensor, so that a plan may change without the host: a captured graph replays with other contents. A
request without drafts keeps the layout with a window of one token. Padding may hold anything, NaN included; nothing reads
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..contract import KdaInputs

PER_TOKEN = ("q", "k", "v", "a", "b")


@dataclass(frozen=True)
class Windows:
    """R windows of one layer.

    Attributes:
        inputs: R sequences of Q tokens each, back to back (row r is tokens r·Q … r·Q + Q − 1).
        lengths: [R] int64, tokens of each row that are real, 0 to Q; on the device of the inputs.
    """

    inputs: KdaInputs
    lengths: Tensor

    @property
    def rows(self) -> int:
        return self.inputs.sequences

    @property
    def width(self) -> int:
        """Q."""
        return self.inputs.q.shape[0] // self.rows

    def live(self, position: int) -> Tensor:
        """[R, 1, 1, 1] bool: rows that have a token at ``position``."""
        return (self.lengths > position)[:, None, None, None]

    def tokens(self, position: int) -> Tensor:
        """[R] packed index of each row's token at ``position``."""
        return torch.arange(self.rows, device=self.inputs.q.device) * self.width + position

    def column(self, position: int) -> KdaInputs:
        """The token at ``position`` of every row, as R sequences of one token."""
        return take(self.inputs, self.tokens(position), [1] * self.rows)


def take(inputs: KdaInputs, tokens: Tensor, lengths: Sequence[int]) -> KdaInputs:
    """The packed tokens ``tokens`` [N], as sequences of these lengths."""
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    parts = {name: getattr(inputs, name)[tokens] for name in PER_TOKEN}
    return replace(inputs, **parts, offsets=tuple(offsets), starts=())


def windows(inputs: KdaInputs, width: int) -> Windows:
    """Pad packed sequences of 1 to ``width`` tokens to windows; the padding is NaN, so that a use of it shows.

    Raises:
        ValueError: a sequence is longer than the width.
    """
    lengths = inputs.lengths()
    if max(lengths) > width:
        raise ValueError(f"a window of {max(lengths)} tokens doesn't fit into {width}; give width ≥ the longest window")
    rows = len(lengths)
    device = inputs.q.device
    target = torch.cat([torch.arange(n, device=device) + r * width for r, n in enumerate(lengths)])
    parts: dict[str, Any] = {}
    for name in PER_TOKEN:
        source: Tensor = getattr(inputs, name)
        parts[name] = source.new_full((rows * width, *source.shape[1:]), float("nan"))
        parts[name][target] = source
    padded = replace(inputs, **parts, offsets=tuple(range(0, rows * width + 1, width)), starts=())
    return Windows(padded, torch.tensor(lengths, device=device))
