"""Short causal depthwise convolution with SiLU over packed sequences, and its state.

The state of a sequence is its last W − 1 inputs, before the convolution, verbatim: a difference there is never rounding.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from .activation import padded
from .precision import Precision, round_to


@lru_cache(maxsize=16)
def _windows(offsets: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """[W, N] row of (states | inputs) that each tap of each token reads; states come first, width − 1 rows a sequence.

    The layers of a forward pass share their offsets, so the table is made once for all of them.
    """
    sequences, history = len(offsets) - 1, width - 1
    lengths = torch.tensor([end - begin for begin, end in pairwise(offsets)], device=device)
    token = torch.arange(offsets[-1], device=device)
    row = torch.repeat_interleave(torch.arange(sequences, device=device), lengths)
    local = token - torch.tensor(offsets[:-1], device=device)[row]
    back = torch.arange(history, -1, -1, device=device)[:, None]
    inside = sequences * history + token - back
    return torch.where(local >= back, inside, row * history + history + local - back)


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
    taps = _windows(offsets, weight.shape[1], x.device)
    total = line[taps[0]] * weight[:, 0]
    for j in range(1, weight.shape[1]):
        total = total + line[taps[j]] * weight[:, j]
    return round_to(padded(torch.nn.functional.silu, total), precision)


def conv_state(x: Tensor, state: Tensor, begin: int, end: int) -> Tensor:
    """The state after tokens ``begin`` … ``end`` of x [N, D], given the state before them [W − 1, D]."""
    history = state.shape[0]
    tail = x[max(begin, end - history) : end]
    return torch.cat([state[tail.shape[0] :], tail])
