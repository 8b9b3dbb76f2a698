"""The short convolution of a pass and the conv states after it: in torch on the CPU, in Triton on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck_kernels import conv, dense
from replaycheck_kernels.precision import Precision

from .device import uses_triton


@dataclass(frozen=True)
class ConvTables:
    """What a GPU kernel reads beside its tensors; int32, made once a pass for all layers.

    Attributes:
        offsets: [R + 1]. rows: [N] sequence of each token. window_rows, window_ends: [Q].
    """

    offsets: Tensor
    rows: Tensor
    window_rows: Tensor
    window_ends: Tensor


@dataclass(frozen=True)
class ConvPlan:
    """offsets: of the packed rows. windows: conv states to return, as (row, tokens of it with which the window ends).

    ``tables``: the same on a GPU; None on the CPU.
    """

    offsets: tuple[int, ...]
    windows: tuple[tuple[int, int], ...]
    tables: ConvTables | None = None


def conv_plan(offsets: tuple[int, ...], windows: Sequence[tuple[int, int]], device: torch.device) -> ConvPlan:
    """The plan of one pass."""
    if not uses_triton(device):
        return ConvPlan(offsets, tuple(windows))
    starts = torch.tensor(offsets, dtype=torch.int32).to(device)
    rows, ends = torch.tensor(windows, dtype=torch.int32).T.contiguous().to(device)
    return ConvPlan(offsets, tuple(windows), ConvTables(starts, dense.token_rows(starts, offsets[-1]), rows, ends))


def convolve(
    x: Tensor, weight: Tensor, state: Tensor, plan: ConvPlan, precision: Precision, silu: bool = True
) -> tuple[Tensor, Tensor]:
    """Args:
        x: [N, D] inputs. weight: [D, W]. state: [R, W − 1, D]. silu: False is a fault, and on the CPU only.

    Returns:
        [N, D] after SiLU, rounded to ``precision``; windows [Q, W − 1, D].
    """
    tables = plan.tables
    if tables is None:
        out = conv.short_convolution(x, weight, state, plan.offsets, precision, silu)
        return out, conv.conv_windows(x, state, plan.offsets, plan.windows)
    if not silu:
        raise ValueError("the GPU's convolution has no recipe without SiLU; plant that fault with --device cpu")
    out = dense.short_convolution(x, weight, state, tables.offsets, precision, tables.rows)
    return out, dense.conv_windows(x, state, tables.offsets, tables.window_rows, tables.window_ends)
