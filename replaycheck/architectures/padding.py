"""Padding: rows of a batch whose lengths differ, on the left or on the right, in the first turn or in a later one.

The mask covers everything so far and positions count the tokens that it lets through, as in the library's own generation.
Only tokens are compared, never padding; each row with its own sequence alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .bench import Bench, Compared
from .refusal import RefusedError

__all__ = ["padding_left", "padding_left_later", "padding_right", "padding_right_continued", "padding_right_later"]

#: Tokens of three rows in a turn that is padded: none missing, one, and more than a chunk of 32 or a window of 24.
UNEQUAL, EQUAL = (50, 49, 13), (40, 40, 40)
ALONE = ((1, 1, 1),) * 4
"""Then each row goes on token by token, for as long as a convolution's window."""
PAD = 0


def padding_left(bench: Bench) -> Iterator[Compared]:
    """Padding before the first tokens, as generation from prompts of several lengths has it; then token by token."""
    yield from _turns(bench, "left", (UNEQUAL, *ALONE))


def padding_right(bench: Bench) -> Iterator[Compared]:
    """Padding behind the first turn's tokens, and that turn alone: what follows tokens can't change what they say."""
    yield from _turns(bench, "right", (UNEQUAL,))


def padding_right_continued(bench: Bench) -> Iterator[Compared]:
    """The same, and each row goes on behind its padding. The library's generation warns of that, so it's asked first."""
    _ask_generation(bench)
    yield from _turns(bench, "right", (UNEQUAL, *ALONE))


def padding_left_later(bench: Bench) -> Iterator[Compared]:
    """A first turn without padding, a second with padding before its tokens, then token by token."""
    yield from _turns(bench, "left", (EQUAL, UNEQUAL, *ALONE))


def padding_right_later(bench: Bench) -> Iterator[Compared]:
    """A first turn without padding, and a second with padding behind its tokens."""
    yield from _turns(bench, "right", (EQUAL, UNEQUAL))


@dataclass
class _Batch:
    """Three conversations side by side: tokens used of each, the mask so far, the cache, and each row's logits."""

    tokens: list[Tensor]
    used: list[int] = field(default_factory=lambda: [0, 0, 0])
    mask: Tensor = field(default_factory=lambda: torch.zeros(3, 0, dtype=torch.long))
    cache: Any = None

    def turn(self, lengths: tuple[int, ...], side: str) -> tuple[Tensor, Tensor]:
        """Padded tokens [3, longest], and the mask of this turn."""
        longest = max(lengths)
        tokens, mask = torch.full((3, longest), PAD), torch.zeros(3, longest, dtype=torch.long)
        for row, length in enumerate(lengths):
            place = slice(longest - length, longest) if side == "left" else slice(0, length)
            tokens[row, place] = self.tokens[row][0, self.used[row] : self.used[row] + length]
            mask[row, place] = 1
        return tokens, mask


def _turns(bench: Bench, side: str, turns: tuple[tuple[int, ...], ...]) -> Iterator[Compared]:
    if "attention_mask" not in bench.model.parameters:
        raise RefusedError("its forward takes no attention_mask")
    batch = _Batch([bench.conversation(number) for number in range(3)])
    for number, lengths in enumerate(turns, 1):
        tokens, mask = batch.turn(lengths, side)
        batch.mask = torch.cat([batch.mask, mask], 1)
        answer = bench.model.padded(tokens, batch.cache, batch.mask)
        batch.cache = answer.cache
        for row, length in enumerate(lengths):
            kept = answer.logits[row][mask[row].bool()]
            where = f"turn {number}, row with {max(lengths) - length} padding tokens"
            yield bench.compare(where, batch.tokens[row], kept, batch.used[row])
            batch.used[row] += length


def _ask_generation(bench: Bench) -> None:
    """One step of generation behind padding on the right, for the sake of what the library says to it."""
    tokens, mask = _Batch([bench.conversation(number) for number in range(3)]).turn(UNEQUAL, "right")
    bench.model.module.generate(tokens, attention_mask=mask, max_new_tokens=1, do_sample=False)
