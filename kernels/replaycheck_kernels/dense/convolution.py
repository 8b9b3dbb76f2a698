"""Short causal depthwise convolution with SiLU over packed sequences, and its state.

Offsets and requests stay on the device, so one table serves all layers of a forward pass and nothing waits for it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..precision import Precision
from .launch import aligned, on_device, power_of_two, rounding, sized

_INDEX = (torch.int32, torch.int64)
_TOKENS = 8


def token_rows(offsets: Tensor, tokens: int) -> Tensor:
    """Sequence of each packed token; made once for all layers.

    Args:
        offsets: [R + 1] int32 or int64, from 0 to ``tokens``; sequences may be empty.

    Returns:
        [tokens] int32.
    """
    token = torch.arange(tokens, dtype=offsets.dtype, device=offsets.device)
    return torch.searchsorted(offsets[1:].contiguous(), token, right=True, out_int32=True)


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor, offsets: Tensor, precision: Precision, rows: Tensor | None = None
) -> Tensor:
    """SiLU(Σ_j weight[:, j] · x[t − W + 1 + j]), summed in the order of j, rounded once.

    Args:
        x: [N, D] fp32 inputs. weight: [D, W] fp32. state: [R, W − 1, D] fp32, each sequence's last inputs.
        offsets: [R + 1] int32 or int64 on the device. rows: :func:`token_rows` of them, if it is there already.

    Returns:
        [N, D] fp32.

    Raises:
        ValueError: another dtype, device, shape or precision.
    """
    (N, D), W, name = x.shape, weight.shape[1], rounding(precision)
    _check(x, state, offsets, W)
    on_device("weight", weight, torch.float32)
    sized("weight", weight, D, W)
    rows = token_rows(offsets, N) if rows is None else rows
    on_device("rows", rows, *_INDEX)
    sized("rows", rows, N)
    state, state_stride4 = _states(state)
    out = x.new_empty((N, D))
    if N:
        from .kernels.convolution import convolution_kernel

        BD = power_of_two(D, 16, 128)
        grid = (-(-N // _TOKENS) * -(-D // BD),)
        convolution_kernel[grid](
            aligned(x),
            aligned(weight),
            state,
            offsets,
            rows,
            out,
            N,
            state_stride4,
            D,
            W,
            _TOKENS,
            BD,
            name,
            num_warps=4,
        )
    return out


def conv_windows(x: Tensor, state: Tensor, offsets: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
    """States after some tokens of some sequences, verbatim inputs: a copy without arithmetic.

    Args:
        x: [N, D] fp32 inputs. state: [R, W − 1, D] before them. offsets: [R + 1] int32 or int64.
        rows, ends: [Q] int32 or int64; request q is the state after ends[q] ≥ 0 tokens of sequence rows[q].

    Returns:
        [Q, W − 1, D] fp32.
    """
    D, W, Q = x.shape[1], state.shape[1] + 1, rows.shape[0]
    _check(x, state, offsets, W)
    for label, index in (("rows", rows), ("ends", ends)):
        on_device(label, index, *_INDEX)
        sized(label, index, Q)
    state, state_stride4 = _states(state)
    out = x.new_empty((Q, W - 1, D))
    if out.numel():
        from .kernels.convolution import window_kernel

        BD = power_of_two(D, 16, 1024)
        grid = (Q * (W - 1) * -(-D // BD),)
        window_kernel[grid](aligned(x), state, offsets, rows, ends, out, state_stride4, D, W, BD, num_warps=4)
    return out


def _check(x: Tensor, state: Tensor, offsets: Tensor, width: int) -> None:
    for name, value in (("x", x), ("state", state)):
        on_device(name, value, torch.float32)
    on_device("offsets", offsets, *_INDEX)
    sized("x", x, -1, -1)
    sized("offsets", offsets, state.shape[0] + 1)
    sized("state", state, -1, width - 1, x.shape[1])


def _states(state: Tensor) -> tuple[Tensor, int]:
    """state with contiguous windows (e.g. one layer of [R, layers, W − 1, D]), and a quarter of their distance."""
    if not state[:1].is_contiguous() or state.stride(0) % 4 or state.data_ptr() % 16:
        state = _padded(state)
    return state, state.stride(0) // 4


def _padded(state: Tensor) -> Tensor:
    R, history, D = state.shape
    room = state.new_empty((R, -(-history * D // 4) * 4))
    return room[:, : history * D].view(R, history, D).copy_(state)
