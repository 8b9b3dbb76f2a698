"""Weights of tiny random models from a seed, so drawn that history counts and logits aren't flat.

Measured with eight layers of width 128: the best token has a probability of 0.1 to 0.95, and another token 20 places back
moves a log-probability by 0.17 nat (short convolution) to 5 nats. A model whose logits don't feel its state proves nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Draws"]

Array = NDArray[np.float32]

_LOGIT_STD = 2.5
_BRANCH_GAIN = 1.5
"""What a branch adds to the residual stream, whose embeddings have a standard deviation of 1."""

_TIME_STEPS = 0.005, 0.1
_RATES = 0.5, 4.0
"""exp(−rate · time step) a token: a memory of 2 to 400 tokens."""


class Draws:
    """Draws in a fixed order: the same seed, the same weights."""

    def __init__(self, seed: int) -> None:
        self._draws = np.random.default_rng(seed)

    def normal(self, *shape: int, std: float = 1.0) -> Array:
        return (self._draws.standard_normal(shape) * std).astype(np.float32)

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        return self._draws.uniform(low, high, shape).astype(np.float32)

    def matrix(self, out: int, into: int, gain: float = 1.0) -> Array:
        """[out, in]; normed inputs give outputs of standard deviation ``gain``."""
        return self.normal(out, into, std=gain / math.sqrt(into))

    def branch(self, out: int, into: int) -> Array:
        """[out, in] of a matrix that writes to the residual stream."""
        return self.matrix(out, into, _BRANCH_GAIN)

    def head(self, vocabulary: int, hidden: int) -> Array:
        return self.matrix(vocabulary, hidden, _LOGIT_STD)

    def norm(self, *shape: int) -> Array:
        """Weights of a norm, near 1, so that leaving them out shows."""
        return 1 + self.normal(*shape, std=0.1)

    def convolution(self, channels: int, width: int) -> Array:
        """[channels, width]"""
        bound = math.sqrt(3 / width)
        return self.uniform(-bound, bound, channels, width)

    def rates(self, *shape: int) -> Array:
        """−exp(A_log), as llama.cpp stores it."""
        return -self.uniform(*_RATES, *shape)

    def time_step_bias(self, *shape: int) -> Array:
        """Inverse softplus of log-uniform time steps."""
        low, high = (math.log(step) for step in _TIME_STEPS)
        steps = np.exp(self.uniform(low, high, *shape))
        return (steps + np.log(-np.expm1(-steps))).astype(np.float32)
