"""The lab's side: both arms of the sessions through its executor, in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import InternalError
from replaycheck.schedule.steps import Schedule
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput
from replaycheck_kernels.recipe import preset

from .sides import DECODE, PREFILL, Job, Measured, PassClock, Setup
from .workload import schedules


class TimedNetwork(Network):
    """A network that books its passes."""

    clock: PassClock

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        outputs = super().forward(rows)
        forms = {row.form for row in rows}
        if len(forms) != 1:
            raise InternalError("a pass of the benchmark mixes prefill and decode; its sessions must stay in phase")
        self.clock.book(PREFILL if forms == {"chunk"} else DECODE, sum(len(row.tokens) for row in rows))
        return outputs


class LabSide:
    """The lab as a side: schedules of the sessions through its executor, every pass timed."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        recipe = preset(setup.recipe)
        self._kernels = lab_kernels(
            KernelChoice(setup.kernels, setup.kernels_path, setup.device, setup.autotune), recipe
        )
        self._network = TimedNetwork(setup.model, recipe, self._kernels.kernels(), setup.device)

    def facts(self) -> dict[str, str]:
        names = dict.fromkeys(kernel.name for kernel in self._kernels.kernels().values())
        return {"lab": f"{', '.join(names)} ({self._kernels.label}), recipe {self._network.recipe.name}"}

    def run(self, job: Job) -> Measured:
        sessions = schedules(job.sizes, self._setup.text, self._network.recipe.name)
        batches = [list(chain(*sessions))] if job.together else [list(each) for each in sessions]
        clock = self._network.clock = PassClock(self._setup.device, job.apart)
        clock.start()
        recordings = [recording for batch in batches for recording in self._execute(batch)]
        seconds = clock.stop()
        asked = sum(recording.computed_tokens for recording in recordings)
        if asked != sum(clock.tokens.values()):
            raise InternalError(f"{asked} tokens were asked for and {sum(clock.tokens.values())} computed")
        return Measured(seconds, clock.tokens, clock.seconds, _logprobs(recordings))

    def _execute(self, batch: Sequence[Schedule]) -> list[ArmRecording]:
        self._network.arena = self._network.new_arena()
        return execute([ArmRun(schedule, self._network) for schedule in batch])


def _logprobs(recordings: Sequence[ArmRecording]) -> tuple[float, ...]:
    """Of the scored tokens, session by session, cold then warm."""
    found: list[float] = []
    for turn in chain.from_iterable(recording.turns for recording in recordings):
        table = torch.log_softmax(torch.from_numpy(turn.logits).double(), -1)
        found += table.gather(1, torch.from_numpy(turn.tokens).long()[:, None])[:, 0].tolist()
    return tuple(found)
