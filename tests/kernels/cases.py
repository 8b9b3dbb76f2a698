"""Random inputs for the state kernels, and the kernels under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.error_model import predict_for
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


@dataclass(frozen=True)
class Layer:
    """What a layer is: heads of q and k, value heads, one decay a head or a channel, the decay's lower bound."""

    name: str
    heads: int = HEADS
    value_heads: int = HEADS
    per_head: bool = False
    lower_bound: float | None = None


KDA = Layer("kda")
BOUNDED = Layer("kda-bounded", lower_bound=-5.0)
GDN = Layer("gdn", per_head=True)
GROUPED_GDN = Layer("gdn-grouped", 2, 4, per_head=True)
GROUPED_KDA = Layer("kda-grouped-bounded", 1, 3, lower_bound=-5.0)
LAYERS = (KDA, BOUNDED, GDN, GROUPED_GDN, GROUPED_KDA)


def name_of(kernel: StateKernel) -> str:
    """Readable test id."""
    return kernel.name.removeprefix("ours/")


def decay_parameters(regime: str, channels: int, heads: int = HEADS) -> tuple[Tensor, Tensor]:
    """A_log [HV] and dt_bias [HV, K or 1]: about −0.04 a token, as Kimi Linear is initialised, or about −8 a token.

    With a lower bound of −5 the same parameters give about −0.2, −2.5 (a steep sigmoid) and −5 a token.
    """
    if regime == "mild":
        return torch.zeros(heads), torch.full((heads, channels), -3.2)
    if regime == "strong":
        return torch.zeros(heads), torch.full((heads, channels), 8.0)
    draws = torch.Generator().manual_seed(99)
    rates = 1 + 15 * torch.rand(heads, generator=draws)
    steps = (-6.9 + 4.6 * torch.rand(heads, channels, generator=draws)).exp()
    return rates.log(), steps.expm1().log()


def random_inputs(
    lengths: Sequence[int],
    key: int = 32,
    value: int = 48,
    regime: str = "kimi",
    recipe: Recipe = EXACT,
    seed: int = 0,
    starts: tuple[int, ...] = (),
    layer: Layer = KDA,
) -> KdaInputs:
    """Packed sequences of these lengths, values in the recipe's activation precision."""
    draws = torch.Generator().manual_seed(seed)
    tokens, channels = sum(lengths), 1 if layer.per_head else key
    A_log, dt_bias = decay_parameters(regime, channels, layer.value_heads)

    def normal(*shape: int) -> Tensor:
        return round_to(torch.randn(*shape, generator=draws), recipe.activation)

    return KdaInputs(
        q=normal(tokens, layer.heads, key),
        k=normal(tokens, layer.heads, key),
        v=normal(tokens, layer.value_heads, value),
        a=normal(tokens, layer.value_heads, channels),
        b=normal(tokens, layer.value_heads),
        A_log=A_log,
        dt_bias=dt_bias,
        offsets=(0, *accumulate(lengths)),
        starts=starts,
        lower_bound=layer.lower_bound,
    )


def random_states(sequences: int, key: int = 32, value: int = 48, seed: int = 1, heads: int = HEADS) -> Tensor:
    """[R, HV, V, K] of the size of states after some tokens."""
    return torch.randn(sequences, heads, value, key, generator=torch.Generator().manual_seed(seed)) * 0.3


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


def ratio(
    kernel: StateKernel,
    x: KdaInputs,
    initial: Tensor,
    claimed: Recipe,
    run_as: Recipe,
    truth: KdaOutput | None = None,
) -> float:
    """Measured over predicted error, the larger of o and state, of the worst sequence; infinite if anything isn't finite.

    ``truth`` is the oracle's output, if it is known already.
    """
    truth, found = truth or ORACLE_KERNEL(x, initial, (), claimed), kernel(x, initial, (), run_as)
    if not (found.o.isfinite().all() and found.final.isfinite().all()):
        return float("inf")
    allowed = predict_for(x, claimed, kernel.form)
    return max(_worst(found, truth, x, allowed.output, allowed.state))


def _worst(found: KdaOutput, truth: KdaOutput, x: KdaInputs, output: float, state: float) -> tuple[float, float]:
    """o in units of the sequence's rms or the pack's, if larger: in one token q̂·k̂ may cancel, which is no error."""
    error, size = (found.o - truth.o).square().mean((1, 2)), truth.o.square().mean((1, 2))
    spans = [slice(begin, end) for begin, end in zip(x.offsets, x.offsets[1:], strict=False)]
    return (
        max(float((error[span].mean() / max(size[span].mean(), size.mean())).sqrt()) for span in spans) / output,
        max(relative(*pair) for pair in zip(found.final, truth.final, strict=True)) / state,
    )


def decay_span(x: KdaInputs, recipe: Recipe) -> float:
    """Largest |cumulative natural log decay| inside a chunk."""
    g = log_decay(x.a, x.A_log, x.dt_bias, recipe, x.lower_bound)
    spans = [
        -g[begin : min(begin + recipe.chunk, end)].sum(0).min()
        for start, end in zip(x.offsets, x.offsets[1:], strict=False)
        for begin in range(start, end, recipe.chunk)
    ]
    return float(max(spans))
