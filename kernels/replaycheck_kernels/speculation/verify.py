"""Verify a window: outputs for every position from a state that is only read, and what a commit will need.

``verify`` runs the recurrence in fp32 as the recurrent kernel does (same operations, same order, hence the same bits) and
keeps per token the correction u = β(v − S k̂), in fp32, and the raw key and decay in the activation dtype. Those records
lose nothing: key and decay were activations already, and u is the fp32 value itself (vLLM 0.33.0,
models/kimi_k3/nvidia/ops/recoverssm.py; layout here: heads before positions, so that a head's records are contiguous).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import StateKernel
from ..precision import Precision, round_to
from ..recipe import Recipe
from ..recurrent import activate, advance
from .window import Windows

STORED = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.HILO: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
}
"""The dtype that holds values of a precision without loss."""


@dataclass(frozen=True)
class Records:
    """What a verify leaves for the commit; row r belongs to row r of the windows.

    Attributes:
        correction: u, [R, HV, Q, V]; fp32 (fp64 under the oracle's recipe).
        key: [R, H, Q, K], after the convolution, before the norm; activation dtype.
        decay: [R, HV, Q, K], or [R, HV, Q, 1] with one decay a head; raw, before bias and activation; activation dtype.
    """

    correction: Tensor
    key: Tensor
    decay: Tensor


@dataclass(frozen=True)
class Verified:
    """o: [R, Q, HV, V], undefined where a row has no token; records of the window."""

    o: Tensor
    records: Records


def verify(window: Windows, initial: Tensor, recipe: Recipe) -> Verified:
    """Run the windows from ``initial`` [R, HV, V, K], which isn't written."""
    x, state = activate(window.inputs, recipe), initial
    corrections, outputs = [], []
    for position in range(window.width):
        after, u, o = advance(state, x, window.tokens(position))
        state = torch.where(window.live(position), after, state)
        corrections.append(u)
        outputs.append(round_to(o, recipe.output, recipe.rounding))
    return Verified(torch.stack(outputs, 1), _records(window, torch.stack(corrections, 2), recipe))


def _records(window: Windows, correction: Tensor, recipe: Recipe) -> Records:
    dtype = STORED[recipe.activation]
    key, decay = (
        x.unflatten(0, (window.rows, window.width)).transpose(1, 2).to(dtype).contiguous()
        for x in (window.inputs.k, window.inputs.a)
    )
    return Records(correction, key, decay)


def each_position(
    kernel: StateKernel, window: Windows, initial: Tensor, recipe: Recipe
) -> tuple[Tensor, Sequence[Tensor]]:
    """Run the windows through a recurrent kernel one token at a time, carrying the state live.

    Args:
        initial: [R, HV, V, K], not written.

    Returns:
        o [R, Q, HV, V], and for each position the states after it [R, HV, V, K], before any cast. A row that has no token
        at a position keeps its state.
    """
    states: list[Tensor] = []
    outputs, state = [], initial
    for position in range(window.width):
        done = kernel(window.column(position), state, (), recipe)
        state = torch.where(window.live(position), done.final, state)
        states.append(state)
        outputs.append(done.o)
    return torch.stack(outputs, 1), states
