"""One Kimi Delta Attention layer on packed rows: projections, convolution, state kernel, gated norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.conv import short_convolution
from replaycheck_kernels.recipe import Recipe

from .layers import gated_rms_norm, linear


@dataclass(frozen=True)
class KdaWeights:
    """Weights of one layer in the dtype of the computation. D = H·K, r: rank of the decay's and the gate's pair."""

    qkv: Tensor  # [3 D, hidden]
    conv: Tensor  # [3 D, W], q | k | v
    f_a: Tensor  # [r, hidden]
    f_b: Tensor  # [D, r]
    g_a: Tensor  # [r, hidden]
    g_b: Tensor  # [D, r]
    b: Tensor  # [H, hidden]
    A_log: Tensor  # [H]
    dt_bias: Tensor  # [H, K]
    o_norm: Tensor  # [V]
    o: Tensor  # [hidden, D]


@dataclass(frozen=True)
class Packed:
    """Rows of one forward pass, sorted so that rows of one kernel form are neighbours.

    Attributes:
        offsets: of the rows in the packed tokens. starts: absolute position of each row's first token.
        forms: kernel form of each row. snapshots: requests of each row, as (chunk, source).
    """

    offsets: tuple[int, ...]
    starts: tuple[int, ...]
    forms: tuple[str, ...]
    snapshots: tuple[tuple[tuple[int, str], ...], ...]


@dataclass(frozen=True)
class LayerState:
    """inputs: [N, 3 D] conv inputs; finals: [R, H, V, K]; snapshots: per row, one state a request."""

    inputs: Tensor
    finals: list[Tensor]
    snapshots: list[list[Tensor]]


def kda_layer(
    x: Tensor,
    w: KdaWeights,
    conv: Tensor,
    initial: Sequence[Tensor],
    rows: Packed,
    kernels: Mapping[str, StateKernel],
    recipe: Recipe,
    epsilon: float,
) -> tuple[Tensor, LayerState]:
    """Args:
        x: [N, hidden], normed. conv: [R, W − 1, 3 D]. initial: R states [H, V, K].

    Returns:
        [N, hidden] and the layer's states.
    """
    act = recipe.activation
    heads, width = w.dt_bias.shape
    mixed = linear(x, w.qkv, act)
    q, k, v = (
        part.unflatten(1, (heads, -1))
        for part in short_convolution(mixed, w.conv, conv, rows.offsets, recipe.conv_out).chunk(3, 1)
    )
    inputs = KdaInputs(
        q,
        k,
        v,
        linear(linear(x, w.f_a, act), w.f_b, act).unflatten(1, (heads, width)),
        linear(x, w.b, act),
        w.A_log,
        w.dt_bias,
        rows.offsets,
        rows.starts,
    )
    o, states = _run_forms(inputs, initial, rows, kernels, recipe)
    gate = linear(linear(x, w.g_a, act), w.g_b, act).unflatten(1, (heads, -1))
    mixed_out = gated_rms_norm(o, gate, w.o_norm, epsilon, act).flatten(1)
    return linear(mixed_out, w.o, act), LayerState(mixed, *states)


def _run_forms(
    inputs: KdaInputs, initial: Sequence[Tensor], rows: Packed, kernels: Mapping[str, StateKernel], recipe: Recipe
) -> tuple[Tensor, tuple[list[Tensor], list[list[Tensor]]]]:
    """Call each form's kernel once, on its neighbouring rows."""
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    snapshots: list[list[Tensor]] = []
    for form in dict.fromkeys(rows.forms):
        mine = [r for r, other in enumerate(rows.forms) if other == form]
        part = _slice(inputs, mine[0], mine[-1] + 1)
        asked = [
            SnapshotRow(i, chunk, -1, SnapshotSource(source))
            for i, r in enumerate(mine)
            for chunk, source in rows.snapshots[r]
        ]
        output = kernels[form](part, torch.stack([initial[r] for r in mine]), asked, recipe)
        outputs.append(output.o)
        finals += list(output.final)
        snapshots += _by_row(output, asked, len(mine))
    return torch.cat(outputs), (finals, snapshots)


def _by_row(output: KdaOutput, asked: Sequence[SnapshotRow], rows: int) -> list[list[Tensor]]:
    taken: list[list[Tensor]] = [[] for _ in range(rows)]
    for request, state in zip(asked, output.snapshots, strict=True):
        taken[request.sequence].append(state)
    return taken


def _slice(x: KdaInputs, first: int, last: int) -> KdaInputs:
    """The rows first … last − 1."""
    begin, end = x.offsets[first], x.offsets[last]
    offsets = tuple(offset - begin for offset in x.offsets[first : last + 1])
    cut = slice(begin, end)
    parts = {name: getattr(x, name)[cut] for name in ("q", "k", "v", "a", "b")}
    return replace(x, **parts, offsets=offsets, starts=x.starts[first:last])
