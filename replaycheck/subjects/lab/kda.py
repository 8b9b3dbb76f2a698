"""One Kimi Delta Attention layer on packed rows: projections, convolution, state kernel, gated norm."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.recipe import Recipe

from .convolution import ConvPlan, convolve
from .layers import Matrix, gated_rms_norm, linear
from .pass_states import CallRows, PassStates
from .rollback import Verify


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
    def calls(self) -> list[CallRows]:
        """Neighbouring rows of one form and rollback method: what is computed by one call."""
        methods = [verify.method if verify else None for verify in self.verifies]
        found, first = [], 0
        for (form, method), same in groupby(zip(self.forms, methods, strict=True)):
            last = first + len(list(same))
            windows = tuple(verify for verify in self.verifies[first:last] if verify)
            found.append(CallRows(first, last, form, method, windows, self.snapshots[first:last]))
            first = last
        return found


def kda_layer(
    x: Tensor,
    w: KdaWeights,
    conv: Tensor,
    states: PassStates,
    layer: int,
    rows: Packed,
    recipe: Recipe,
    epsilon: float,
) -> tuple[Tensor, Tensor]:
    """Args:
        x: [N, hidden], normed. conv: [R, W − 1, 3 D]. states: of the pass, whose layer ``layer`` this is.

    Returns:
        [N, D], before the output projection, and conv windows [Q, W − 1, 3 D].
    """
    act = recipe.activation
    heads, key = w.dt_bias.shape
    values = heads * w.o_norm.shape[0]
    mixed = linear(x, w.qkv, act)
    convolved, windows = convolve(mixed, w.conv, conv, rows.conv, recipe.conv_out, recipe.conv_activation == "silu")
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
    o = states.run(layer, inputs, recipe)
    gate = linear(linear(x, w.g_a, act), w.g_b, act).unflatten(1, (heads, -1))
    return gated_rms_norm(o, gate, w.o_norm, epsilon, act).flatten(1), windows
