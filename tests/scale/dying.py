"""A subject whose process dies at work, as one that takes too much memory does."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from replaycheck.compare.record import ArmRecording
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.subjects.protocol import Description


class Dying:
    def describe(self) -> Description:
        return Description("dying", "dying", 4, compilers=frozenset(Compiler), deterministic=True, parallel=True)

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


def factory() -> Dying:
    return Dying()
