"""Random choices that stay the same over versions of Python: only ``random()`` of a string seed is promised to."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random
from typing import TypeVar

__all__ = ["Draw"]

T = TypeVar("T")


class Draw:
    """Choices named by a seed and by what they are for, so that one more choice elsewhere changes nothing here."""

    def __init__(self, seed: int, *names: str) -> None:
        self._random = Random("\n".join([str(seed), *names]))

    def below(self, stop: int) -> int:
        """A number of 0 … stop − 1."""
        return int(self._random.random() * stop)

    def between(self, first: int, last: int) -> int:
        """A number of first … last, both possible."""
        return first + self.below(last - first + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def skewed(self, first: int, last: int) -> int:
        """A number of first … last that is uniform in its logarithm: many short, few long."""
        return round(exp(log(first) + self._random.random() * (log(last) - log(first))))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability
