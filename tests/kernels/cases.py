"""Random inputs for the state kernels, and the kernels under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import round_to
from replaycheck_kernels.recipe import EXACT, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH

HEADS = 2
RECURRENT = (RECURRENT_TORCH, RECURRENT_CPU)
FAST = (CHUNK_EMULATOR, *RECURRENT)
ALL = (ORACLE_KERNEL, *FAST)

#: Lengths round a sub-chunk (16), a chunk (64) and two chunks.
EDGES = (1, 15, 16, 17, 63, 64, 65, 127, 128, 129)

#: K ≠ V both ways round, so that a transposed state can't pass.
WIDTHS = ((32, 48), (128, 96))

REGIMES = ("mild", "kimi", "strong")


def name_of(kernel: StateKernel) -> str:
    """Readable test id."""
    return kernel.name.removeprefix("ours/")


def decay_parameters(regime: str, key: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A_log [H] and dt_bias [H, K]: about −0.04 a token, as Kimi Linear is initialised, or about −8 a token."""
    if regime == "mild":
        return torch.zeros(HEADS), torch.full((HEADS, key), -3.2)
    if regime == "strong":
        return torch.zeros(HEADS), torch.full((HEADS, key), 8.0)
    draws = torch.Generator().manual_seed(seed + 99)
    rates = 1 + 15 * torch.rand(HEADS, generator=draws)
    steps = (-6.9 + 4.6 * torch.rand(HEADS, key, generator=draws)).exp()
    return rates.log(), steps.expm1().log()


def random_inputs(
    lengths: Sequence[int],
    key: int = 32,
    value: int = 48,
    regime: str = "kimi",
    recipe: Recipe = EXACT,
    seed: int = 0,
    starts: tuple[int, ...] = (),
) -> KdaInputs:
    """Packed sequences of these lengths, values in the recipe's activation precision."""
    draws = torch.Generator().manual_seed(seed)
    tokens = sum(lengths)

    def normal(*shape: int) -> Tensor:
        return round_to(torch.randn(*shape, generator=draws), recipe.activation)

    return KdaInputs(
        q=normal(tokens, HEADS, key),
        k=normal(tokens, HEADS, key),
        v=normal(tokens, HEADS, value),
        a=normal(tokens, HEADS, key),
        b=normal(tokens, HEADS),
        A_log=decay_parameters(regime, key)[0],
        dt_bias=decay_parameters(regime, key)[1],
        offsets=(0, *accumulate(lengths)),
        starts=starts,
    )


def random_states(sequences: int, key: int = 32, value: int = 48, seed: int = 1) -> Tensor:
    """[R, H, V, K] of the size of states after some tokens."""
    return torch.randn(sequences, HEADS, value, key, generator=torch.Generator().manual_seed(seed)) * 0.3


def only(x: KdaInputs, sequence: int, length: int | None = None) -> KdaInputs:
    """One sequence of a pack by itself, or its first ``length`` tokens."""
    begin, end = x.offsets[sequence], x.offsets[sequence + 1]
    cut = slice(begin, end if length is None else begin + length)
    parts = {name: getattr(x, name)[cut] for name in ("q", "k", "v", "a", "b")}
    starts = (x.starts[sequence],) if x.starts else ()
    return replace(x, **parts, offsets=(0, cut.stop - cut.start), starts=starts)


def tap(chunk: int, source: SnapshotSource = SnapshotSource.ACCUMULATOR, sequence: int = 0) -> SnapshotRow:
    return SnapshotRow(sequence, chunk, 0, source)


def relative(x: Tensor, reference: Tensor) -> float:
    """Frobenius error of x relative to the reference."""
    return float((x.double() - reference.double()).norm() / reference.double().norm())


def decay_span(x: KdaInputs, recipe: Recipe) -> float:
    """Largest |cumulative natural log decay| inside a chunk."""
    g = log_decay(x.a, x.A_log, x.dt_bias, recipe)
    spans = [
        -g[begin : min(begin + recipe.chunk, end)].sum(0).min()
        for start, end in zip(x.offsets, x.offsets[1:], strict=False)
        for begin in range(start, end, recipe.chunk)
    ]
    return float(max(spans))
