"""One Kimi Delta Attention layer on packed rows: projections, convolution, state kernel, gated norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel, concatenate
from replaycheck_kernels.recipe import Recipe

from .convolution import ConvPlan, convolve
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
        conv: the convolution's part of the plan.
    """

    offsets: tuple[int, ...]
    starts: tuple[int, ...]
    forms: tuple[str, ...]
    snapshots: tuple[tuple[tuple[int, str], ...], ...]
    conv: ConvPlan


@dataclass(frozen=True)
class LayerState:
    """finals: [R, H, V, K]; snapshots: [S, H, V, K], row by row; windows: [Q, W − 1, 3 D]."""

    finals: Tensor
    snapshots: Tensor
    windows: Tensor


def kda_layer(
    x: Tensor,
    w: KdaWeights,
    conv: Tensor,
    initial: Tensor,
    rows: Packed,
    kernels: Mapping[str, StateKernel],
    recipe: Recipe,
    epsilon: float,
) -> tuple[Tensor, LayerState]:
    """Args:
        x: [N, hidden], normed. conv: [R, W − 1, 3 D]. initial: [R, H, V, K].

    Returns:
        [N, hidden] and the layer's states.
    """
    act = recipe.activation
    heads, width = w.dt_bias.shape
    mixed = linear(x, w.qkv, act)
    convolved, windows = convolve(mixed, w.conv, conv, rows.conv, recipe.conv_out)
    q, k, v = (part.unflatten(1, (heads, -1)) for part in convolved.chunk(3, 1))
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
    output = _run_forms(inputs, initial, rows, kernels, recipe)
    gate = linear(linear(x, w.g_a, act), w.g_b, act).unflatten(1, (heads, -1))
    mixed_out = gated_rms_norm(output.o, gate, w.o_norm, epsilon, act).flatten(1)
    return linear(mixed_out, w.o, act), LayerState(output.final, output.snapshots, windows)


def _run_forms(
    inputs: KdaInputs, initial: Tensor, rows: Packed, kernels: Mapping[str, StateKernel], recipe: Recipe
) -> KdaOutput:
    """Call each form's kernel once, on its neighbouring rows; the results lie in the order of the rows."""
    outputs = []
    for form in dict.fromkeys(rows.forms):
        first = rows.forms.index(form)
        last = first + rows.forms.count(form)
        asked = [
            SnapshotRow(r - first, chunk, -1, SnapshotSource(source))
            for r in range(first, last)
            for chunk, source in rows.snapshots[r]
        ]
        outputs.append(kernels[form](inputs.between(first, last), initial[first:last], asked, recipe))
    return concatenate(outputs)
