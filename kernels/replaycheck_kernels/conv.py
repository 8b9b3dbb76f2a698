"""Short causal depthwise convolution with SiLU over packed sequences, and its state.

The state of a sequence is its last W − 1 inputs, before the convolution, verbatim: a difference there is never rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from .activation import padded
from .compiled_conv import weighted_sums
from .precision import Precision, round_to


@lru_cache(maxsize=16)
def _windows(offsets: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """[W, N] row of (states | inputs) that each tap of each token reads; states come first, width − 1 rows a sequence.

    The layers of a forward pass share their offsets, so the table is made once for all of them.
    """
    sequences, history = len(offsets) - 1, width - 1
    lengths = torch.tensor([end - begin for begin, end in pairwise(offsets)])
    token = torch.arange(offsets[-1])
    row = torch.repeat_interleave(torch.arange(sequences), lengths)
    local = token - torch.tensor(offsets[:-1])[row]
    back = torch.arange(history, -1, -1)[:, None]
    inside = sequences * history + token - back
    return torch.where(local >= back, inside, row * history + history + local - back).to(device)


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor, offsets: tuple[int, ...], precision: Precision, silu: bool = True
) -> Tensor:
    """SiLU(Σ_j weight[:, j] · x[t − W + 1 + j]), summed in the order of j.

    Args:
        x: [N, D] inputs. weight: [D, W]. state: [R, W − 1, D], each sequence's last inputs.
        offsets: R + 1 offsets of the packed sequences. silu: False is a fault.

    Returns:
        [N, D], rounded to ``precision``.
    """
    on_cpu = x.device.type == "cpu" and x.dtype is torch.float32
    total = weighted_sums(x, weight, state, offsets) if on_cpu else _weighted_sums(x, weight, state, offsets)
    return round_to(padded(torch.nn.functional.silu, total) if silu else total, precision)


def _weighted_sums(x: Tensor, weight: Tensor, state: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """The sums under the SiLU on any device, in any dtype."""
    line = torch.cat([state.flatten(0, 1), x])
    taps = _windows(offsets, weight.shape[1], x.device)
    total = line[taps[0]] * weight[:, 0]
    for j in range(1, weight.shape[1]):
        total = total + line[taps[j]] * weight[:, j]
    return total


def conv_windows(x: Tensor, state: Tensor, offsets: tuple[int, ...], ends: Sequence[tuple[int, int]]) -> Tensor:
    """States after the first ``end`` tokens of a sequence, for each (sequence, end) of ``ends``.

    Args:
        x: [N, D] inputs of packed sequences. state: [R, W − 1, D] before them. offsets: R + 1 offsets.

    Returns:
        [len(ends), W − 1, D], bytes of the inputs.
    """
    line = torch.cat([state.flatten(0, 1), x])
    return line[_window_rows(offsets, tuple(ends), state.shape[1], x.device)]


@lru_cache(maxsize=16)
def _window_rows(
    offsets: tuple[int, ...], ends: tuple[tuple[int, int], ...], history: int, device: torch.device
) -> Tensor:
    """[len(ends), W − 1] row of (states | inputs) of each token of each window; made once for all layers."""
    sequence, end, begin = torch.tensor([(r, end, offsets[r]) for r, end in ends]).unsqueeze(2).unbind(1)
    local = end - history + torch.arange(history)
    inside = (len(offsets) - 1) * history + begin + local
    return torch.where(local >= 0, inside, sequence * history + history + local).to(device)
