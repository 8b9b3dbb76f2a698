"""Inputs of the timed calls: random, of real size, with decays as a freshly initialised Kimi layer has them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch

from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource

from .floors import CHUNK, Shape


@dataclass(frozen=True)
class Case:
    """One call: ``lengths`` of its sequences; H heads of q, k and v; K = key, V = value."""

    name: str
    form: str
    lengths: tuple[int, ...]
    heads: int = 32
    key: int = 128
    value: int = 128

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    def shape(self, snapshots: int = 0) -> Shape:
        """bf16 activations, fp32 states."""
        h, k, v = self.heads, self.key, self.value
        return Shape(self.tokens, len(self.lengths), h, h, k, v, k, snapshots=snapshots)


GPU_CHUNK = (
    Case("8,192 tokens", "chunk", (8192,)),
    Case("65,536 tokens", "chunk", (65536,)),
    Case("32 × 1,024 tokens", "chunk", (1024,) * 32),
)
GPU_DECODE = (Case("decode, batch 64", "recurrent", (1,) * 64), Case("decode, batch 256", "recurrent", (1,) * 256))
CPU_CASES = (
    Case("512 tokens", "chunk", (512,), heads=2),
    Case("512 tokens", "recurrent", (512,), heads=2),
    Case("decode, batch 64", "recurrent", (1,) * 64, heads=2),
)


def draw(case: Case, device: str, seed: int) -> tuple[KdaInputs, torch.Tensor]:
    """Inputs whose values are bf16, and initial states [R, H, V, K] fp32.

    They are in a bf16 container on a GPU, whose kernels want them so, and in the contract's fp32 one on the CPU. Decays
    are −A·softplus(a + dt_bias) with A in [1, 16] and softplus(dt_bias) in [0.001, 0.1], its root uniform.
    """
    draws = torch.Generator(device=device).manual_seed(seed)
    container = torch.bfloat16 if device == "cuda" else torch.float32
    n, h, k, v = case.tokens, case.heads, case.key, case.value

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, generator=draws).bfloat16().to(container)

    rate = 1 + 15 * torch.rand(h, device=device, generator=draws)
    step = (torch.rand(h, k, device=device, generator=draws) * (100.0**0.5 - 1) + 1).square() * 1e-3
    inputs = KdaInputs(
        normal(n, h, k),
        normal(n, h, k),
        normal(n, h, v),
        normal(n, h, k),
        normal(n, h),
        rate.log(),
        step.expm1().log(),
        (0, *accumulate(case.lengths)),
    )
    initial = torch.randn(len(case.lengths), h, v, k, device=device, generator=draws) * 0.3
    return inputs, initial


def one_snapshot_each(case: Case) -> list[SnapshotRow]:
    """The accumulator in the middle of each sequence, on the chunk grid."""
    return [
        SnapshotRow(r, length // (2 * CHUNK), r, SnapshotSource.ACCUMULATOR) for r, length in enumerate(case.lengths)
    ]
