"""The state of one sequence, which is what a slot holds: a convolution and a temporal state a recurrent layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs

Made = TypeVar("Made")

Ring = tuple[KdaInputs, ...]
"""Raw inputs of some tokens, a layer each; nothing writes to them."""


@dataclass(frozen=True)
class SequenceState:
    """Recurrent layers are counted in their own order, L of them.

    Attributes:
        conv: [L, W − 1, D] last inputs of the short convolution (q | k | v).
        temporal: [L, H, V, K].
        pages: pages of the attention cache, one a token.
        identity: derivation of the contents, as bytes: equal identities mean the same computation on the same inputs.
        ring: raw inputs of tokens that the temporal state lacks, oldest first, one sequence a layer; the rest has them.
        extra: further tensors of the layers by name, [L, …] each, in a dtype of their own: whatever else a slot must keep.
    """

    conv: Tensor
    temporal: Tensor
    pages: NDArray[np.int64]
    identity: bytes
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    ring: Ring | None = None
    made: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was made of this state, by :meth:`once`; a state with another identity begins anew."""

    def once(self, key: object, make: Callable[[SequenceState], Made]) -> Made:
        """What ``make`` makes of this state: made once for ``key``, however many slots want it."""
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = make(self)
        return cast(Made, found)
