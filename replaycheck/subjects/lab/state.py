"""The state of one sequence: what a slot holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class SequenceState:
    """Recurrent layers are counted in their own order, L of them.

    Attributes:
        conv: [L, W − 1, D] last inputs of the short convolution (q | k | v).
        temporal: [L, H, V, K].
        pages: pages of the attention cache, one a token.
        identity: derivation of the contents, as bytes: equal identities mean the same computation on the same inputs.
    """

    conv: Tensor
    temporal: Tensor
    pages: NDArray[np.int64]
    identity: bytes
