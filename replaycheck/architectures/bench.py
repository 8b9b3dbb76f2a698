"""What an operation works with: a model, fixed token sequences, and the uncached forward that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from .model import Answer, Model
from .tiny import VOCABULARY

__all__ = ["ALONE", "CONVERSATIONS", "CUT", "TOKENS", "Bench", "Compared", "logprobs"]

#: Tokens of a conversation: more than four chunks of 32 and two of 64, whatever a family calls its chunk; not a multiple.
TOKENS = 133
CONVERSATIONS = 3
CUT, ALONE = 70, 8
"""Where operations cut a conversation, and how many tokens follow, one at a time, so that a family that can't continue with
several isn't called faulty in every operation."""
FIRST = 3
"""Token ids begin here: 0 is padding, 1 and 2 may be special."""


@dataclass(frozen=True)
class Compared:
    """One place where an operation's answer was held against the uncached forward's.

    Attributes:
        where: in words. first: the position of the first row.
        got, expected: log-probabilities [n, vocabulary], float64; or one number a row.
    """

    where: str
    first: int
    got: Tensor
    expected: Tensor

    def differences(self) -> Tensor:
        """[n] the largest difference of each position, nat; infinite where it isn't a number."""
        largest = (self.got - self.expected).abs().amax(-1)
        return torch.where(largest.isnan(), torch.inf, largest)


@dataclass
class Bench:
    """A model and three conversations of ``TOKENS`` tokens that have nothing in common."""

    model: Model
    seed: int = 0
    _uncached: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    @cached_property
    def _reference(self) -> Model:
        """A module of its own, so that the reference disturbs no family that keeps a state in its module."""
        return self.model.fresh()

    def conversation(self, number: int) -> Tensor:
        """[1, TOKENS] token ids."""
        draws = torch.Generator().manual_seed(1000 * self.seed + number)
        return torch.randint(FIRST, VOCABULARY, (1, TOKENS), generator=draws)

    def expected(self, tokens: Tensor) -> Tensor:
        """Log-probabilities [T, vocabulary] of one sequence [1, T] by the uncached forward."""
        key = tuple(tokens[0].tolist())
        if key not in self._uncached:
            self._uncached[key] = logprobs(self._reference.uncached(tokens))[0]
        return self._uncached[key]

    def compare(self, where: str, tokens: Tensor, logits: Tensor, first: int) -> Compared:
        """Logits [n, vocabulary] of the positions from ``first`` on of the sequence [1, T]."""
        wanted = self.expected(tokens)[first : first + len(logits)]
        return Compared(where, first, logprobs(logits), wanted)

    def begin(self, tokens: Tensor) -> Answer:
        return self.model(tokens)


def logprobs(logits: Tensor) -> Tensor:
    """[..., vocabulary] nat, in float64."""
    return torch.log_softmax(logits.double(), -1)
