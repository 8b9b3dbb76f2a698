"""The null subject with a little noise that depends on the arm, so that summaries have something to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np

from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.schedule.steps import Schedule
from replaycheck.subjects.null import NullSubject

SIZES = {"cold": 1e-1, "split": 1e-2, "split-rounded": 0.0, "warm": 0.0}


class Noisy(NullSubject):
    name = digest = "noisy"

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        return [self._with_noise(recording) for recording in super().replay(schedules)]

    def _with_noise(self, recording: ArmRecording) -> ArmRecording:
        size = SIZES[recording.arm.partition("/")[0]]
        return replace(recording, turns=tuple(_changed(recording.arm, turn, size) for turn in recording.turns))


def _changed(arm: str, turn: ScoredTurn, size: float) -> ScoredTurn:
    draws = np.random.default_rng(crc32(f"{arm}{turn.key}".encode()))
    return replace(turn, logits=(turn.logits + size * draws.normal(size=turn.logits.shape)).astype(np.float32))


def factory() -> Noisy:
    return Noisy()
