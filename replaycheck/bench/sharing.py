"""What arms share: tokens that the arms of a preset ask for, and tokens that the executor computes, counted without a model.

The executor itself runs, with a network that computes nothing and counts: which computations are the same is decided by
identities, which need no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from replaycheck.model.config import ModelConfig
from replaycheck.say import Say
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput, Tap
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours


@dataclass(frozen=True)
class Shared:
    """Tokens of all arms and groups. asked: by the arms, one by one. computed: each distinct computation once."""

    asked: int
    computed: int

    @property
    def saved(self) -> float:
        """Share of the tokens that needn't be computed."""
        return 1 - self.computed / self.asked


def count(config: ModelConfig, groups: Sequence[Group], arms: Sequence[Arm], say: Say = lambda _: None) -> Shared:
    """Count over groups, each with all its arms in lockstep, as a worker runs them."""
    asked = computed = 0
    for group in groups:
        counter = _Counter(config)
        recordings = execute([ArmRun(compile_schedule(group, arm), counter) for arm in arms])
        mine = sum(recording.computed_tokens for recording in recordings)
        say(f"{group.group}: {mine:,} tokens asked for, {counter.computed:,} computed")
        asked, computed = asked + mine, computed + counter.computed
    return Shared(asked, computed)


class _Counter(Network):
    """A network in name: states of one element, logits of one column, and a count of tokens."""

    def __init__(self, config: ModelConfig) -> None:
        self.recipe = preset("exact")
        self.kernels = ours(self.recipe, "cpu")
        self.device = torch.device("cpu")
        self.dtype = torch.float32
        self.config = config
        self.computed = 0

    def empty_state(self) -> SequenceState:
        layers = len(self.config.kda_layers)
        return SequenceState(torch.zeros(layers, 1, 1), torch.zeros(layers, 1, 1, 1), np.empty(0, np.int64), b"")

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        self.computed += sum(len(row.tokens) for row in rows)
        state = self.empty_state()
        return [_nothing(row, state) for row in rows]


def _nothing(row: RowInput, state: SequenceState) -> RowOutput:
    taps: tuple[Tap, ...] = row.taps
    return RowOutput(torch.zeros(len(row.tokens) - row.first_logit, 1), state, tuple(state for _ in taps))
