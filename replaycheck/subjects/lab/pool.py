"""Slots of state, on the device of the computation. A pool has one dtype for the temporal state; the conv state keeps the
activations' dtype, and extra tensors of the layers their own.

``rounding`` makes registers of fp32 that round to a pool dtype at each store: the reference that ``split-rounded`` is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype

from .state import Ring, SequenceState

TORCH_DTYPE = {PoolDtype.FP32: torch.float32, PoolDtype.BF16: torch.bfloat16, PoolDtype.FP16: torch.float16}


def cast(state: Tensor, dtype: torch.dtype) -> Tensor:
    """The one cast of a store, of a state [...]: direct, to nearest. The double-rounding probe tests this function."""
    return state.to(dtype)


def derive(*parts: object) -> bytes:
    """Identity of a computation: a digest of what it was made from."""
    return blake2b(repr(parts).encode(), digest_size=16).digest()


class Pool:
    """A fixed number of slots, each a conv state, a temporal state, extra tensors and a list of attention pages.

    A slot holds tensors that nothing writes to: a store puts new ones there, so arms that store the same state keep it
    once; a copy of a slot moves its bytes.
    """

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
        self._conv_dtype = conv_dtype
        self._zero = like.once(("zero", dtype, conv_dtype), lambda _: _filled(like, dtype, conv_dtype, lambda _: 0))
        self._nan = like.once(("nan", dtype, conv_dtype), lambda _: _filled(like, dtype, conv_dtype, _poison))
        # Slots start as NaN: whatever reads a slot that nothing wrote shows at once.
        self._temporal = [self._nan.temporal] * slots
        self._conv = [self._nan.conv] * slots
        self._extra = {name: [part] * slots for name, part in self._nan.extra.items()}
        self._pages = [np.empty(0, np.int64)] * slots
        self._identity = [b""] * slots
        self._rings: list[Ring | None] = [None] * slots

    def clear(self, slot: int) -> None:
        """The state of no tokens."""
        self._put(slot, self._zero)
        self._pages[slot] = np.empty(0, np.int64)
        self._identity[slot] = derive("no tokens", self._origin)

    def free(self, slot: int) -> None:
        """Forget what the slot held: reading it before it is written again is an error, or NaN."""
        self._put(slot, self._nan)
        self._identity[slot] = b""

    def _put(self, slot: int, state: SequenceState) -> None:
        self._temporal[slot], self._conv[slot], self._rings[slot] = state.temporal, state.conv, None
        for name, parts in self._extra.items():
            parts[slot] = state.extra[name]

    def copy(self, source: int, destination: int) -> None:
        """All of a slot, byte for byte, but its ring: what a state lacks stays with its slot."""
        for parts in (self._temporal, self._conv, *self._extra.values()):
            parts[destination] = parts[source].clone()
        self._pages[destination] = self._pages[source]
        identity, lacks = self._identity[source], self._rings[source]
        self._identity[destination] = identity if lacks is None else derive(identity, "without its ring")
        self._rings[destination] = None

    def load(self, slot: int) -> SequenceState:
        """The slot's state in the dtypes that it is stored in; the network widens it exactly."""
        if not self._identity[slot]:
            raise InternalError(f"slot {slot} is read before anything was stored there")
        return SequenceState(
            self._conv[slot],
            self._temporal[slot],
            self._pages[slot],
            self._identity[slot],
            {name: parts[slot] for name, parts in self._extra.items()},
            self._rings[slot],
        )

    def store(self, slot: int, state: SequenceState) -> None:
        """One direct cast of the temporal state to the pool dtype. The state's tensors are kept where no cast is needed."""
        kept = state.once(("stored", self._rounding, self.dtype, self._conv_dtype), self._stored)
        self._put(slot, kept)
        self._pages[slot] = kept.pages
        self._identity[slot] = kept.identity

    def lag(self, slot: int, state: SequenceState) -> None:
        """All but the temporal state, which stays as it is: its last tokens are in ``state.ring``. A register, which has no
        ring, is left unrounded instead."""
        temporal = state.temporal if state.ring is None else self._temporal[slot]
        self._put(slot, replace(state, temporal=temporal, conv=state.conv.to(self._conv_dtype)))
        self._pages[slot], self._rings[slot] = state.pages, state.ring
        self._identity[slot] = derive(state.identity, self.dtype, "lagging")

    def _stored(self, state: SequenceState) -> SequenceState:
        rounded = state.temporal if self._rounding is None else cast(state.temporal, self._rounding)
        return SequenceState(
            state.conv.to(self._conv_dtype),
            cast(rounded, self.dtype),
            state.pages,
            derive(state.identity, self.dtype, self._rounding),
            state.extra,
        )

    def raw(self, slot: int) -> tuple[Tensor, Tensor]:
        """The stored temporal [L, H, V, K] and conv [L, W − 1, D] state on the CPU, contiguous; not to be written to."""
        return _exported(self._temporal[slot]), _exported(self._conv[slot])

    def tensors(self, slot: int) -> dict[str, Tensor]:
        """All that is stored of a slot, by name, likewise."""
        temporal, conv = self.raw(slot)
        return {"temporal": temporal, "conv": conv} | {
            name: _exported(parts[slot]) for name, parts in self._extra.items()
        }


_EXPORTED: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Stored tensor → the same on the CPU, contiguous. Arms share stored tensors, and each is looked at by the audit and by the
recordings of its restores."""


def _exported(stored: Tensor) -> Tensor:
    if stored.device.type == "cpu" and stored.is_contiguous():
        return stored
    found: Tensor | None = _EXPORTED.get(stored)
    if found is None:
        found = _EXPORTED[stored] = stored.cpu().contiguous()
    return found


def _filled(
    like: SequenceState, dtype: torch.dtype, conv_dtype: torch.dtype, value: Callable[[torch.dtype], float | int]
) -> SequenceState:
    """A state of one value, in the layout of ``like``."""
    return SequenceState(
        torch.full_like(like.conv, value(conv_dtype), dtype=conv_dtype),
        torch.full_like(like.temporal, value(dtype), dtype=dtype),
        np.empty(0, np.int64),
        b"",
        {name: torch.full_like(part, value(part.dtype)) for name, part in like.extra.items()},
    )


def _poison(dtype: torch.dtype) -> float | int:
    """NaN; for integers, the largest."""
    return float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max
