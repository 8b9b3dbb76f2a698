"""The sums of the short convolution compiled for the CPU with numba: the bits of the torch form, without its gathers."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _sums(x: Any, weight: Any, state: Any, offsets: Any, out: Any) -> None:
    """x, out [N, D]; weight [W, D]; state [R, W − 1, D]. A product and a sum are rounded each, in the order of j."""
    W, D = weight.shape
    for r in range(state.shape[0]):
        begin = offsets[r]
        for t in range(begin, offsets[r + 1]):
            for j in range(W):
                back = t - begin + j - (W - 1)
                row = x[begin + back] if back >= 0 else state[r, W - 1 + back]
                if j == 0:
                    for d in range(D):
                        out[t, d] = row[d] * weight[j, d]
                else:
                    for d in range(D):
                        out[t, d] = out[t, d] + row[d] * weight[j, d]


def weighted_sums(x: Tensor, weight: Tensor, state: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Σ_j weight[:, j] · x[t − W + 1 + j].

    Args:
        x: [N, D] fp32 on the CPU. weight: [D, W]. state: [R, W − 1, D], each sequence's last inputs.

    Returns:
        [N, D] fp32.
    """
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    arrays = [part.contiguous().numpy() for part in (x, weight.T, state)]
    sums: Any = _sums  # numba's stubs give a dispatcher no arguments
    sums(*arrays, np.array(offsets, np.int64), out.numpy())
    return out
