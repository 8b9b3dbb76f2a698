"""Slots of state, on the device of the computation. A pool has one dtype for the temporal state; the conv state keeps the
activations' dtype.

``rounding`` makes registers of fp32 that round to a pool dtype at each store: the reference that ``split-rounded`` is.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype

from .state import SequenceState

TORCH_DTYPE = {PoolDtype.FP32: torch.float32, PoolDtype.BF16: torch.bfloat16, PoolDtype.FP16: torch.float16}


def cast(state: Tensor, dtype: torch.dtype) -> Tensor:
    """The one cast of a store: direct, to nearest. The double-rounding probe tests this function."""
    return state.to(dtype)


def derive(*parts: object) -> bytes:
    """Identity of a computation: a digest of what it was made from."""
    return blake2b(repr(parts).encode(), digest_size=16).digest()


class Pool:
    """A fixed number of slots, each a conv state, a temporal state and a list of attention pages."""

    def __init__(
        self,
        slots: int,
        like: SequenceState,
        dtype: torch.dtype,
        conv_dtype: torch.dtype,
        origin: str,
        rounding: torch.dtype | None = None,
    ) -> None:
        self.dtype = dtype
        self._rounding = rounding
        self._origin = origin
        # Slots start as NaN: whatever reads a slot that nothing wrote shows at once.
        self._temporal = like.temporal.new_full((slots, *like.temporal.shape), float("nan"), dtype=dtype)
        self._conv = like.conv.new_full((slots, *like.conv.shape), float("nan"), dtype=conv_dtype)
        self._compute = like.temporal.dtype
        self._pages = [np.empty(0, np.int64)] * slots
        self._identity = [b""] * slots

    def clear(self, slot: int) -> None:
        """The state of no tokens."""
        self._temporal[slot] = 0
        self._conv[slot] = 0
        self._pages[slot] = np.empty(0, np.int64)
        self._identity[slot] = derive("no tokens", self._origin)

    def free(self, slot: int) -> None:
        """Forget what the slot held: reading it before it is written again is an error, or NaN."""
        self._temporal[slot] = float("nan")
        self._conv[slot] = float("nan")
        self._identity[slot] = b""

    def copy(self, source: int, destination: int) -> None:
        """All of a slot, byte for byte."""
        self._temporal[destination] = self._temporal[source]
        self._conv[destination] = self._conv[source]
        self._pages[destination] = self._pages[source]
        self._identity[destination] = self._identity[source]

    def load(self, slot: int) -> SequenceState:
        """The slot's state, upcast exactly to the dtype of the computation."""
        if not self._identity[slot]:
            raise InternalError(f"slot {slot} is read before anything was stored there")
        return SequenceState(
            self._conv[slot].to(self._compute),
            self._temporal[slot].to(self._compute),
            self._pages[slot],
            self._identity[slot],
        )

    def store(self, slot: int, state: SequenceState) -> None:
        """One direct cast of the temporal state to the pool dtype."""
        rounded = state.temporal if self._rounding is None else cast(state.temporal, self._rounding)
        self._temporal[slot] = cast(rounded, self.dtype)
        self._conv[slot] = state.conv.to(self._conv.dtype)
        self._pages[slot] = state.pages
        self._identity[slot] = derive(state.identity, self.dtype, self._rounding)

    def raw(self, slot: int) -> tuple[Tensor, Tensor]:
        """The stored temporal [L, H, V, K] and conv [L, W − 1, D] state on the CPU; views where the pool is there."""
        return self._temporal[slot].cpu(), self._conv[slot].cpu()
