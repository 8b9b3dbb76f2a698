"""Short causal depthwise convolution with SiLU over packed sequences, and its state.

The state of a sequence is its last W − 1 inputs, before the convolution, verbatim: a difference there is never rounding.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from .activation import padded
from .precision import Precision, round_to


def _windows(offsets: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """[N, W] row of (states | inputs) that each token's window reads; states come first, width − 1 rows a sequence."""
    sequences, history = len(offsets) - 1, width - 1
    rows = torch.empty((offsets[-1], width), dtype=torch.long, device=device)
    for r, (begin, end) in enumerate(pairwise(offsets)):
        line = torch.cat(
            [
                torch.arange(r * history, (r + 1) * history, device=device),
                torch.arange(begin, end, device=device) + sequences * history,
            ]
        )
        rows[begin:end] = line.unfold(0, width, 1)
    return rows


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor, offsets: tuple[int, ...], precision: Precision
) -> Tensor:
    """SiLU(Σ_j weight[:, j] · x[t − W + 1 + j]), summed in the order of j.

    Args:
        x: [N, D] inputs. weight: [D, W]. state: [R, W − 1, D], each sequence's last inputs.
        offsets: R + 1 offsets of the packed sequences.

    Returns:
        [N, D], rounded to ``precision``.
    """
    line = torch.cat([state.flatten(0, 1), x])
    windows = line[_windows(offsets, weight.shape[1], x.device)]
    total = windows[:, 0] * weight[:, 0]
    for j in range(1, weight.shape[1]):
        total = total + windows[:, j] * weight[:, j]
    return round_to(padded(torch.nn.functional.silu, total), precision)


def conv_state(x: Tensor, state: Tensor, begin: int, end: int) -> Tensor:
    """The state after tokens ``begin`` … ``end`` of x [N, D], given the state before them [W − 1, D]."""
    history = state.shape[0]
    tail = x[max(begin, end - history) : end]
    return torch.cat([state[tail.shape[0] :], tail])
