"""Assistant turns sampled from a model by the float64 oracle: token by token, with a seed that is recorded.

In float64 the probabilities of two machines agree to about 1e-13, so the same seed gives the same text unless a uniform
draw falls that close to a boundary; a suite can therefore be made again and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.traces.vocabulary import END
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours

ASCII = 128
"""Ids under it are text; of the others only END may be sampled, since an answer holds no roles."""


class OracleSampler:
    """Draws answers from one model. Prompts that begin alike are computed again: the oracle takes no short cut."""

    def __init__(self, model: Path, temperature: float) -> None:
        recipe = preset("oracle")
        self._network = Network(model, recipe, ours(recipe, "cpu"))
        self._temperature = temperature

    @torch.no_grad()
    def __call__(self, tokens: Sequence[int], limit: int, seed: int) -> list[int]:
        """At most ``limit`` tokens of content after ``tokens``; END stops it and isn't returned."""
        self._network.arena = self._network.new_arena()
        draws = np.random.default_rng(seed)
        given, start, state = list(tokens), 0, self._network.empty_state()
        answer: list[int] = []
        while len(answer) < limit:
            row = RowInput(given, start, "recurrent", state, first_logit=len(given) - 1)
            output = self._network.forward([row])[0]
            token = self._draw(output.logits[0], draws)
            if token == END:
                break
            answer.append(token)
            start, given, state = start + len(given), [token], output.final
        return answer

    def _draw(self, logits: Tensor, draws: np.random.Generator) -> int:
        """Inverse of the cumulative distribution at one uniform draw; the most likely token at temperature 0."""
        allowed = torch.full_like(logits, float("-inf"))
        allowed[:ASCII] = logits[:ASCII]
        allowed[END] = logits[END]
        if self._temperature == 0:
            return int(allowed.argmax())
        cumulative = torch.softmax(allowed / self._temperature, 0).cumsum(0).numpy()
        return min(int(np.searchsorted(cumulative, draws.random(), side="right")), END)
