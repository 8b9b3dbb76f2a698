"""Which tokens a convolution window of the first layer holds, read from its bytes.

The first layer's inputs depend on the token alone (embedding, norm, projection), so each row of a window names a token id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from replaycheck.subjects.lab.kda import KdaWeights
from replaycheck.subjects.lab.layers import linear, rms_norm
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.precision import Precision

__all__ = ["NOTHING", "UNKNOWN", "ends_of", "read_window"]

NOTHING, UNKNOWN = -1, -2
"""A row of zeros, as before the first token; and a row that is no token's."""


@torch.no_grad()
def read_window(network: Network, window: NDArray[np.float32]) -> tuple[int, ...]:
    """Token ids of the rows of ``window`` [W − 1, D], the first layer's; empty if the first layer isn't recurrent."""
    first = network.weights.layers[0]
    if not isinstance(first.attention, KdaWeights):
        return ()
    act = network.recipe.activation
    normed = rms_norm(network.weights.embedding, first.attention_norm, network.config.rms_norm_eps, act)
    rows = linear(normed, first.attention.qkv, act)
    stored = rows.to(torch.bfloat16 if act is Precision.BF16 else network.dtype).to("cpu", torch.float32).numpy()
    names = {row.tobytes(): token for token, row in enumerate(stored)}
    return tuple(NOTHING if not row.any() else names.get(row.tobytes(), UNKNOWN) for row in window)


def ends_of(window: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Positions of a path at which a window of these tokens ends: the number of tokens up to it.

    >>> ends_of((7, 8, 9), [1, 7, 8, 9, 7, 8, 9])
    [4, 7]
    """
    width = len(window)
    padded = [NOTHING] * width + list(tokens)
    return [end for end in range(len(tokens) + 1) if padded[end : end + width] == list(window)]
