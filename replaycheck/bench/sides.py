"""What the two sides of ``bench run`` share: the work they are given, and what they measured."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Protocol

import torch

from replaycheck.autotuning import REPLAYED

from .workload import Sizes

PREFILL, DECODE = "prefill", "decode"

DTYPE_RECIPES = {"fp32": "exact", "bf16": "sglang"}
"""Activations' dtype → the lab's recipe for it."""


@dataclass(frozen=True)
class Setup:
    """What a side is built from; plain data for another process.

    Attributes:
        side: ``lab`` or ``transformers``. text: token ids that sessions are cut from. recipe: the lab's.
        kernels, kernels_path, autotune: of the lab, and the folder where transformers may find fla.
    """

    side: str
    model: Path
    dtype: str
    device: str
    threads: int
    text: tuple[int, ...]
    recipe: str
    kernels: str = "ours"
    kernels_path: Path | None = None
    autotune: int = REPLAYED


@dataclass(frozen=True)
class Job:
    """One run of all sessions. together: in one batch, or one session after the other.

    ``apart``: time prefill and decode apart, which waits for the device after each pass; False times the whole alone.
    """

    sizes: Sizes
    together: bool
    apart: bool


@dataclass(frozen=True)
class Measured:
    """Seconds of the whole run; tokens and seconds of each kind of pass; log-probabilities of the scored positions."""

    seconds: float
    tokens: Mapping[str, int]
    kind_seconds: Mapping[str, float]
    logprobs: tuple[float, ...]


class Side(Protocol):
    """One of the two."""

    def facts(self) -> dict[str, str]:
        """What really runs: kernels and versions."""
        ...

    def run(self, job: Job) -> Measured: ...


@dataclass
class PassClock:
    """Books time on kinds of passes: each moment on the pass that ends it."""

    device: str
    apart: bool
    tokens: dict[str, int] = field(default_factory=lambda: {PREFILL: 0, DECODE: 0})
    seconds: dict[str, float] = field(default_factory=lambda: {PREFILL: 0.0, DECODE: 0.0})
    _begin: float = 0.0
    _last: float = 0.0

    def start(self) -> None:
        wait(self.device)
        self._begin = self._last = perf_counter()

    def book(self, kind: str, tokens: int) -> None:
        """A pass of ``kind`` is over (queued, on a GPU whose passes aren't timed apart)."""
        self.tokens[kind] += tokens
        if self.apart:
            wait(self.device)
            now = perf_counter()
            self.seconds[kind] += now - self._last
            self._last = now

    def stop(self) -> float:
        """Seconds since the start."""
        wait(self.device)
        return perf_counter() - self._begin


def wait(device: str) -> None:
    """Until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_bytes(device: str) -> int:
    """Most memory that this process held: on the device, or resident."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
