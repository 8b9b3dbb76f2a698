"""One Kimi Delta Attention layer on packed rows: projections, convolution, state kernel, gated norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel, concatenate
from replaycheck_kernels.recipe import Recipe

from .convolution import ConvPlan, convolve
from .layers import Matrix, gated_rms_norm, linear
from .rollback import Verify, run_windows


@dataclass(frozen=True)
class KdaWeights:
    """Weights of one layer in the dtype of the computation. D = H·K, r: rank of the decay's and the gate's pair.

    With HV > H value heads, which checkpoints don't have, v, b, the decay and the gate have HV heads; V may differ from K.
    """

    qkv: Matrix  # [3 D, hidden]
    conv: Tensor  # [3 D, W], q | k | v
    f_a: Tensor  # [r, hidden]
    f_b: Matrix  # [D, r]
    g_a: Tensor  # [r, hidden]
    g_b: Matrix  # [D, r]
    b: Matrix  # [H, hidden]
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
        verifies: of each row that is a window of speculation, how it is rolled back; rows of one method are neighbours.
        conv: the convolution's part of the plan.
    """

    offsets: tuple[int, ...]
    starts: tuple[int, ...]
    forms: tuple[str, ...]
    snapshots: tuple[tuple[tuple[int, str], ...], ...]
    verifies: tuple[Verify | None, ...]
    conv: ConvPlan

    @property
    def calls(self) -> tuple[tuple[str, str | None], ...]:
        """Form and rollback method of each row: what is computed by one call."""
        methods = (verify.method if verify else None for verify in self.verifies)
        return tuple(zip(self.forms, methods, strict=True))


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
        [N, D], before the output projection, and the layer's states.
    """
    act = recipe.activation
    heads, key = w.dt_bias.shape
    values = heads * w.o_norm.shape[0]
    mixed = linear(x, w.qkv, act)
    convolved, windows = convolve(mixed, w.conv, conv, rows.conv, recipe.conv_out)
    queries, v = convolved.split([convolved.shape[1] - values, values], 1)
    q, k = (part.unflatten(1, (-1, key)) for part in queries.chunk(2, 1))
    inputs = KdaInputs(
        q,
        k,
        v.unflatten(1, (heads, -1)),
        linear(linear(x, w.f_a, act), w.f_b, act).unflatten(1, (heads, key)),
        linear(x, w.b, act),
        w.A_log,
        w.dt_bias,
        rows.offsets,
        rows.starts,
    )
    output = _run_forms(inputs, initial, rows, kernels, recipe)
    gate = linear(linear(x, w.g_a, act), w.g_b, act).unflatten(1, (heads, -1))
    mixed_out = gated_rms_norm(output.o, gate, w.o_norm, epsilon, act).flatten(1)
    return mixed_out, LayerState(output.final, output.snapshots, windows)


def _run_forms(
    inputs: KdaInputs, initial: Tensor, rows: Packed, kernels: Mapping[str, StateKernel], recipe: Recipe
) -> KdaOutput:
    """Call each form's kernel once, on its neighbouring rows; the results lie in the order of the rows."""
    outputs, calls = [], rows.calls
    for form, method in dict.fromkeys(calls):
        first = calls.index((form, method))
        last = first + calls.count((form, method))
        if method is not None:
            outputs.append(
                _roll_back(inputs.between(first, last), initial[first:last], rows, first, kernels[form], recipe)
            )
            continue
        asked = [
            SnapshotRow(r - first, chunk, -1, SnapshotSource(source))
            for r in range(first, last)
            for chunk, source in rows.snapshots[r]
        ]
        outputs.append(kernels[form](inputs.between(first, last), initial[first:last], asked, recipe))
    return concatenate(outputs)


def _roll_back(
    inputs: KdaInputs, initial: Tensor, rows: Packed, first: int, kernel: StateKernel, recipe: Recipe
) -> KdaOutput:
    """The windows of one method, which are the rows from ``first`` on."""
    mine = [verify for verify in rows.verifies[first : first + inputs.sequences] if verify]
    kept = [verify.kept.temporal for verify in mine]
    asked = [(r, asked) for r in range(len(mine)) for asked in rows.snapshots[first + r]]
    taps = [(r, kept[r] if source == SnapshotSource.FINAL else tokens) for r, (tokens, source) in asked]
    return run_windows(mine[0].method, inputs, initial, kept, taps, kernel, recipe)
