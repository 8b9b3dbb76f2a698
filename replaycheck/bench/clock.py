"""Time of calls: device events on a GPU, the processor's clock elsewhere. Calls take turns and start with a cold cache.

On a GPU the host runs ahead: a spin kernel keeps the device busy while calls are queued, so what is timed is the device's
work and not how fast Python launches. What a call costs the host is measured apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

Call = Callable[[], object]

WARM_UP = {"cuda": 3, "cpu": 1}
"""Calls before the first that counts: the first compiles and tunes; on a GPU the second may still allocate."""

FLUSH_BYTES = 256 * 2**20
"""Read before each timed call, over four times the 60 MB of an H200's second-level cache. A write would leave lines there
that the timed call has to write back: 60 MB are a fifth of what a decode of 64 states moves."""

_CYCLES_A_SECOND = 2e9
"""The spin kernel counts clock cycles; an H200 runs at up to 1.98 GHz, so this spins no shorter than asked."""

_LONGEST_SPIN = 0.5
"""Seconds. A call whose launches take longer is bound by the host in any case."""

_SPIN_UP = 0.1
"""Seconds of spinning before the first sample: an idle GPU lowers its clock, and compiling leaves it idle."""

_LAUNCHES = 1e-3
"""Seconds for the flush and the events of one round, generously."""


@dataclass(frozen=True)
class Times:
    """Seconds of each timed call; ``host``: median seconds until a call returned to Python."""

    samples: tuple[float, ...]
    host: float


def in_turn(calls: Sequence[Call], runs: int, device: str) -> list[Times]:
    """Time calls A B A B …, each ``runs`` times after a warm-up."""
    for call in calls:
        for _ in range(WARM_UP[device]):
            call()
    return _on_gpu(calls, runs) if device == "cuda" else _on_cpu(calls, runs)


def _on_cpu(calls: Sequence[Call], runs: int) -> list[Times]:
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for call, mine in zip(calls, samples, strict=True):
            begin = perf_counter()
            call()
            mine.append(perf_counter() - begin)
    return [Times(tuple(mine), median(mine)) for mine in samples]


def _on_gpu(calls: Sequence[Call], runs: int) -> list[Times]:
    cache = torch.zeros(FLUSH_BYTES // 4, device="cuda")
    hosts = [_host_seconds(call) for call in calls]
    spans: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
    torch.cuda._sleep(int(_CYCLES_A_SECOND * _SPIN_UP))
    for _ in range(runs):
        # A queue of launches has a limit (about 1,000), so the spin covers one round, not all of them.
        torch.cuda._sleep(int(_CYCLES_A_SECOND * min(2 * sum(hosts) + _LAUNCHES, _LONGEST_SPIN)))
        for call, mine in zip(calls, spans, strict=True):
            cache.sum()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            mine.append((begin, end))
        torch.cuda.synchronize()
    return [
        Times(tuple(begin.elapsed_time(end) / 1e3 for begin, end in mine), host)
        for mine, host in zip(spans, hosts, strict=True)
    ]


def _host_seconds(call: Call, runs: int = 5) -> float:
    """Until the call returns; the device is idle at its start, so no full queue holds the host up."""
    found = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begin = perf_counter()
        call()
        found.append(perf_counter() - begin)
    torch.cuda.synchronize()
    return median(found)
