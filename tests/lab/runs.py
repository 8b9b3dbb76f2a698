"""Running arms of one group on the tiny model, and comparing recordings bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from replaycheck.compare.record import ArmRecording
from replaycheck.faults.fault import find_fault
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.state import SequenceState


def run_arms(network: Network, group: Group, arms: Sequence[Arm], fault: str | None = None) -> list[ArmRecording]:
    """Recordings of the arms, executed together in one thread from an empty attention cache."""
    torch.set_num_threads(1)
    network.arena = network.new_arena()
    schedules = [compile_schedule(group, arm) for arm in arms]
    if fault:
        schedules = [find_fault(fault).on_schedule(schedule) for schedule in schedules]
    return execute([ArmRun(schedule, network) for schedule in schedules])


def same_logits(a: ArmRecording, b: ArmRecording) -> bool:
    """Equal bits at every scored position of every turn."""
    return all(
        x.key == y.key and np.array_equal(x.logits.view(np.uint32), y.logits.view(np.uint32))
        for x, y in zip(a.turns, b.turns, strict=True)
    )


def same_restores(a: ArmRecording, b: ArmRecording) -> bool:
    """Equal bits of every state that was continued, convolutions included."""
    return all(
        x.key == y.key
        and np.array_equal(x.temporal.view(np.uint32), y.temporal.view(np.uint32))
        # split keeps its live conv state in the same dtype
        and np.array_equal(x.conv, y.conv)
        for x, y in zip(a.restores, b.restores, strict=True)
    )


def some_state(seed: int = 0, layers: int = 2, tokens: int = 5, identity: bytes = b"some") -> SequenceState:
    """A state of 2 layers, 2 heads, V = 6, K = 4, and a conv window of 3 × 10, in fp32."""
    draws = torch.Generator().manual_seed(seed)
    return SequenceState(
        torch.randn(layers, 3, 10, generator=draws).bfloat16().float(),
        torch.randn(layers, 2, 6, 4, generator=draws),
        np.arange(tokens, dtype=np.int64),
        identity,
    )
