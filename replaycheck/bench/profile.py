"""Where the time of the replay stage goes: the share spent in kernels on a GPU, and the costliest functions of the host.

The stage is what a run does between its start-up check and its probes: compile, execute in lockstep, compare. It runs four
times: to warm up, by the clock alone, under torch's profiler, under cProfile. A profiler slows the host, not the device, so
the share is kernel time of the third run over the wall time of the second.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from replaycheck.replay.pool import GROUPS_ON_A_GPU
from replaycheck.replay.worker import Work, one_thread, replay_groups
from replaycheck.say import Say
from replaycheck.schema.trace import Group

from .sides import wait

TOP = 10


@dataclass(frozen=True)
class Cost:
    """A host function: seconds in itself, and how often it was called."""

    function: str
    seconds: float
    calls: int


@dataclass(frozen=True)
class Profile:
    """Seconds of the replay stage.

    Attributes:
        wall: by the clock alone. profiled: under torch's profiler (GPU only).
        kernels, copies: of the device, summed; None on the CPU.
        launches: kernels that ran.
        host: the functions with most time of their own, under cProfile.
        host_wall: of that run.
    """

    wall: float
    profiled: float | None
    kernels: float | None
    copies: float | None
    launches: int
    host: tuple[Cost, ...]
    host_wall: float

    @property
    def share(self) -> float | None:
        """Of the wall time, in kernels."""
        return None if self.kernels is None else self.kernels / self.wall


def profile(work: Work, groups: Sequence[Group], device: str, say: Say = lambda _: None) -> Profile:
    """Profile the replay of ``groups``, taken as a run groups them: several in lockstep on a GPU, one by one on the CPU."""
    one_thread()
    size = GROUPS_ON_A_GPU if device == "cuda" else 1
    batches = [groups[first : first + size] for first in range(0, len(groups), size)]

    def replay() -> float:
        wait(device)
        begin = perf_counter()
        for batch in batches:
            replay_groups(work, batch)
        wait(device)
        return perf_counter() - begin

    say("warm-up")
    replay()
    say("by the clock alone")
    wall = replay()
    profiled, kernels, copies, launches = (None, None, None, 0)
    if device == "cuda":
        say("under torch's profiler")
        profiled, kernels, copies, launches = _device_times(replay)
    say("under cProfile")
    host_wall, host = _host_costs(replay)
    return Profile(wall, profiled, kernels, copies, launches, host, host_wall)


def _device_times(replay: Callable[[], float]) -> tuple[float, float, float, int]:
    """Seconds of the run; of kernels; of copies and fills; number of kernels."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CUDA]) as found:
        wall = replay()
    kernels = copies = 0.0
    launches = 0
    for event in found.key_averages():
        if event.device_type.name != "CUDA":
            continue
        seconds = event.self_device_time_total / 1e6
        if event.key.startswith(("Memcpy", "Memset")):
            copies += seconds
        else:
            kernels, launches = kernels + seconds, launches + event.count
    return wall, kernels, copies, launches


def _host_costs(replay: Callable[[], float]) -> tuple[float, tuple[Cost, ...]]:
    profiler = cProfile.Profile()
    wall = profiler.runcall(replay)
    rows: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profiler))["stats"]
    costs = [Cost(_place(*place), row[2], row[1]) for place, row in rows.items()]
    return wall, tuple(sorted(costs, key=lambda cost: -cost.seconds)[:TOP])


def _place(file: str, line: int, name: str) -> str:
    """``folder/file.py:12 name``, or the name alone of what isn't Python."""
    return name if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"
