"""A deterministic toy with a recurrent state, and a prefix cache whose faults can be chosen.

Its state is computed token by token, so no cut changes a bit: whatever differs behind a hit, the cache did.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 160
SIZE = 24
State = NDArray[np.float64]


@dataclass(frozen=True)
class CacheFaults:
    """What is wrong with the cache.

    stale: a hit gives the state of another conversation, where there is one. rounded: a hit gives the state in fp16.
    late: a hit gives a state that is one token further. never: nothing hits. silent: hits aren't reported.
    crossed: stale, for requests that aren't alone in the server.
    """

    stale: bool = False
    rounded: bool = False
    late: bool = False
    never: bool = False
    silent: bool = False
    crossed: bool = False


class ToyModel:
    """h ← decay·h + embedding(token); logits = W·tanh(h)."""

    def __init__(self) -> None:
        draws = np.random.default_rng(5)
        self._embedding = draws.normal(size=(VOCABULARY, SIZE))
        self._out = draws.normal(size=(VOCABULARY, SIZE)) * 0.6
        self._decay = draws.uniform(0.8, 0.995, SIZE)

    def run(self, state: State, tokens: tuple[int, ...]) -> State:
        for token in tokens:
            state = self._decay * state + self._embedding[token % VOCABULARY]
        return state

    def logprobs(self, state: State) -> NDArray[np.float64]:
        logits = self._out @ np.tanh(state)
        logits -= logits.max()
        return logits - np.log(np.exp(logits).sum())


ZERO = np.zeros(SIZE)


@dataclass
class ToyCache:
    """States at block ends, by salt and prefix; as vLLM's align mode one a prompt, at its last block end."""

    block: int = 16
    faults: CacheFaults = CacheFaults()
    states: dict[tuple[str, tuple[int, ...]], State] = field(default_factory=dict)
    late: dict[tuple[str, tuple[int, ...]], State] = field(default_factory=dict)
    accompanied: bool = False
    """Whether the request that is being answered has others beside it."""

    def hit(self, salt: str, tokens: tuple[int, ...]) -> tuple[int, State]:
        """Tokens that are covered, and their state."""
        if not self.faults.never:
            for end in range((len(tokens) - 1) // self.block * self.block, 0, -self.block):
                if (salt, tokens[:end]) in self.states:
                    return end, self._given(salt, tokens[:end])
        return 0, ZERO

    def _given(self, salt: str, prefix: tuple[int, ...]) -> State:
        state = self.states[salt, prefix]
        others = [kept for (_, each), kept in self.states.items() if each[: len(prefix)] != prefix]
        if (self.faults.stale or (self.faults.crossed and self.accompanied)) and others:
            state = others[-1]
        if self.faults.late:
            state = self.late.get((salt, prefix), state)
        return state.astype(np.float16).astype(np.float64) if self.faults.rounded else state


class ToyEngine:
    """Computes prompts through the cache."""

    def __init__(self, block: int = 16, faults: CacheFaults | None = None) -> None:
        self.model = ToyModel()
        self.cache = ToyCache(block, faults or CacheFaults())

    def prompt(self, salt: str, tokens: tuple[int, ...], read: bool = True) -> tuple[int, State]:
        """Tokens that were hit, and the state after the prompt."""
        covered, state = self.cache.hit(salt, tokens) if read else (0, ZERO)
        end = max(covered, (len(tokens) - 1) // self.cache.block * self.cache.block)
        if end > covered:
            state = self.model.run(state, tokens[covered:end])
            self.cache.states.setdefault((salt, tokens[:end]), state)
            self.cache.late.setdefault((salt, tokens[:end]), self.model.run(state, tokens[end : end + 1]))
        return covered, self.model.run(state, tokens[end:])
