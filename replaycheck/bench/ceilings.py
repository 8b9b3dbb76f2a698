"""What this device really does at most, measured: bytes a second of a copy, FLOP a second of a matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import torch

from .clock import in_turn

COPY_BYTES = 4 * 2**30
"""Far over any cache; reading and writing it takes about 2 ms on an H200."""

MATMUL_SIZE = 8192
"""A product that fills the chip: 1.1e12 FLOP."""

RUNS = 20


@dataclass(frozen=True)
class Ceilings:
    """copy: bytes read plus bytes written a second. matmul: bf16 FLOP a second, on random data. Each with its samples."""

    copy_samples: tuple[float, ...]
    matmul_samples: tuple[float, ...]

    @property
    def copy(self) -> float:
        return median(self.copy_samples)

    @property
    def matmul(self) -> float:
        return median(self.matmul_samples)


def measure(seed: int) -> Ceilings:
    """Both ceilings of the current GPU. Random data: a product of zeros runs faster than any real one."""
    draws = torch.Generator(device="cuda").manual_seed(seed)
    return Ceilings(copy_rates(draws), _matmul_rates(draws))


def copy_rates(draws: torch.Generator) -> tuple[float, ...]:
    """Bytes read plus bytes written a second, of each timed copy."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda").random_(generator=draws)
    target = torch.empty_like(source)
    times = in_turn([lambda: target.copy_(source)], RUNS, "cuda")[0]
    return tuple(2 * COPY_BYTES / time for time in times.samples)


def _matmul_rates(draws: torch.Generator) -> tuple[float, ...]:
    shape = (MATMUL_SIZE, MATMUL_SIZE)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=draws) for _ in range(2))
    out = torch.empty_like(a)
    times = in_turn([lambda: torch.mm(a, b, out=out)], RUNS, "cuda")[0]
    return tuple(2 * MATMUL_SIZE**3 / time for time in times.samples)
