"""Assistant turns sampled from a model by the float64 oracle: token by token, with a seed that is recorded.

In float64 the probabilities of two machines agree to about 1e-13, so the same seed gives the same text unless a uniform
draw falls that close to a boundary; a suite can therefore be made again and compared. Answers are sampled side by side,
over branches and groups, and a prompt that goes on from an earlier one is computed from there: the model's products take
64 rows at a time anyway, and what a row gives depends neither on its mates nor on the cut, so an answer is the
same as if it were sampled alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput
from replaycheck.subjects.lab.state import SequenceState
from replaycheck.traces.synth import Ask, GroupBuild
from replaycheck.traces.vocabulary import END
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours

ASCII = 128
"""Ids under it are text; of the others only END may be sampled, since an answer holds no roles."""

ROWS = 64
"""Answers side by side: one tile of the model's products (measured: 32 ms a step of one answer, 255 ms of 64)."""

WAVE = 16
"""Groups built side by side. What they keep, 1.6 MB a state and 10 KB a token for attention, goes when all are done."""

Prefix = tuple[int, ...]
Kept = dict[Prefix, SequenceState]
"""States by the tokens that they cover."""


@dataclass(eq=False)
class _Line:
    """An answer on its way. token: the one that the state lacks, the prompt's last or the one drawn last."""

    ask: Ask
    build: GroupBuild | None
    draws: np.random.Generator
    state: SequenceState
    token: int
    content: list[int] = field(default_factory=list)

    @property
    def covered(self) -> Prefix:
        """Tokens of the state."""
        return (*self.ask.tokens, *self.content)[:-1]


class OracleSampler:
    """Draws answers from one model. tokens, answers: computed and sampled so far."""

    def __init__(self, model: Path, temperature: float) -> None:
        recipe = preset("oracle")
        self._network = Network(model, recipe, ours(recipe, "cpu"))
        self._temperature = temperature
        self.tokens = 0
        self.answers = 0

    def __call__(self, tokens: Sequence[int], limit: int, seed: int) -> list[int]:
        """At most ``limit`` tokens of content after ``tokens``; END stops it and isn't returned."""
        if limit == 0:
            return []
        self._network.reset()
        ask = Ask("", "", tuple(tokens), limit, least=0, seed=seed, continued=False, shared=False)
        live = self._begin([(None, ask)], {None: {}})
        while not self._step(live):
            pass
        return live[0].content

    def build(self, builds: Iterable[GroupBuild], say: Callable[[int], None] = lambda answers: None) -> Iterator[Group]:
        """Each group with its answers, in order; ``say`` gets how many answers were sampled. Memory is that of a wave."""
        rest = iter(builds)
        while wave := list(islice(rest, WAVE)):
            self._network.reset()
            self._answer(wave, say)
            for build in wave:
                yield build.group()

    def _answer(self, wave: Sequence[GroupBuild], say: Callable[[int], None]) -> None:
        """All answers of some groups, as many side by side as there is room for."""
        kept: dict[GroupBuild | None, Kept] = {build: {} for build in wave}
        waiting: list[tuple[GroupBuild | None, Ask]] = [(build, ask) for build in wave for ask in build.asks()]
        live: list[_Line] = []
        while waiting or live:
            room = ROWS - len(live)
            live += self._begin(waiting[:room], kept)
            del waiting[:room]
            for line in self._step(live):
                live.remove(line)
                self.answers += 1
                if line.ask.continued:
                    kept[line.build][line.covered] = _copied(line.state)
                if line.build is not None:
                    line.build.give(line.ask, line.content)
                    waiting += [(line.build, ask) for ask in line.build.asks()]
            say(self.answers)

    def _begin(self, asks: Sequence[tuple[GroupBuild | None, Ask]], kept: dict[GroupBuild | None, Kept]) -> list[_Line]:
        """Answers that have a state of all their prompt but the last token."""
        states = self._read(list(dict.fromkeys((build, ask.tokens[:-1]) for build, ask in asks)), kept)
        for build, ask in asks:
            prefix = ask.tokens[:-1]
            if ask.shared and prefix not in kept[build]:
                kept[build][prefix] = _copied(states[build, prefix])
        return [
            _Line(ask, build, np.random.default_rng(ask.seed), states[build, ask.tokens[:-1]], ask.tokens[-1])
            for build, ask in asks
        ]

    def _read(
        self, wanted: Sequence[tuple[GroupBuild | None, Prefix]], kept: dict[GroupBuild | None, Kept]
    ) -> dict[tuple[GroupBuild | None, Prefix], SequenceState]:
        """States after the prefixes, each computed from the longest one that was kept."""
        starts = [_longest(kept[build], prefix) for build, prefix in wanted]
        befores = [
            kept[build][prefix[:start]] if start else self._network.empty_state()
            for (build, prefix), start in zip(wanted, starts, strict=True)
        ]
        rows = [
            (index, RowInput(prefix[start:], start, "recurrent", befores[index], first_logit=len(prefix) - start))
            for index, ((_, prefix), start) in enumerate(zip(wanted, starts, strict=True))
            if start < len(prefix)
        ]
        for (index, _), output in zip(rows, self._forward([row for _, row in rows]), strict=True):
            befores[index] = output.final
        return dict(zip(wanted, befores, strict=True))

    def _step(self, live: Sequence[_Line]) -> list[_Line]:
        """One token more of each answer. Returns those that are over."""
        rows = [RowInput([line.token], len(line.covered), "recurrent", line.state) for line in live]
        return [
            line
            for line, output in zip(live, self._forward(rows), strict=True)
            if self._is_over(line, output.logits[0], output.final)
        ]

    def _is_over(self, line: _Line, logits: Tensor, state: SequenceState) -> bool:
        if len(line.content) < line.ask.least:
            logits = logits.index_fill(0, torch.tensor([END]), float("-inf"))
        token = self._draw(logits, line.draws)
        if token == END:
            return True
        line.content.append(token)
        line.state, line.token = state, token
        return len(line.content) == line.ask.limit

    @torch.no_grad()
    def _forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        self.tokens += sum(len(row.tokens) for row in rows)
        return self._network.forward(rows) if rows else []

    def _draw(self, logits: Tensor, draws: np.random.Generator) -> int:
        """Inverse of the cumulative distribution at one uniform draw; the most likely token at temperature 0."""
        allowed = torch.full_like(logits, float("-inf"))
        allowed[:ASCII] = logits[:ASCII]
        allowed[END] = logits[END]
        if self._temperature == 0:
            return int(allowed.argmax())
        cumulative = torch.softmax(allowed / self._temperature, 0).cumsum(0).numpy()
        return min(int(np.searchsorted(cumulative, draws.random(), side="right")), END)


def _longest(kept: Kept, prefix: Prefix) -> int:
    """Tokens of the longest kept state that ``prefix`` begins with."""
    return max((len(each) for each in kept if prefix[: len(each)] == each), default=0)


def _copied(state: SequenceState) -> SequenceState:
    """A state that doesn't keep the whole batch's tensors alive."""
    return SequenceState(state.conv.clone(), state.temporal.clone(), state.pages, state.identity)
