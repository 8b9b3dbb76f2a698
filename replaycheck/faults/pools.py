"""Faults of slots: a class of pools in, one that errs out. They use what a pool offers: load, store, copy, clear, free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from replaycheck.subjects.lab.pool import Pool, derive
from replaycheck.subjects.lab.state import SequenceState

__all__ = ["PoolFault", "altered", "on_copy"]

PoolFault = Callable[[type[Pool]], type[Pool]]


def altered(state: SequenceState, temporal: Tensor | None = None, conv: Tensor | None = None) -> SequenceState:
    """The state with other tensors and another identity, so that nothing takes it for the right one."""
    return replace(
        state,
        identity=derive(state.identity, "altered"),
        temporal=state.temporal if temporal is None else temporal,
        conv=state.conv if conv is None else conv,
    )


def on_copy(change: Callable[[Pool, int, SequenceState], SequenceState]) -> PoolFault:
    """What a copy leaves in its destination: (pool, source, the state that was copied) → the state that is there."""

    def fault(base: type[Pool]) -> type[Pool]:
        class Copies(base):  # type: ignore[misc, valid-type]
            def copy(self, source: int, destination: int) -> None:
                super().copy(source, destination)
                if self._identity[destination]:
                    super().store(destination, change(self, source, self.load(destination)))

        return Copies

    return fault


rounded_copies = on_copy(lambda pool, _, state: altered(state, temporal=_through(state.temporal, torch.bfloat16)))
"""F46: a state that is moved loses bits."""

conv_left_behind = on_copy(lambda pool, _, state: altered(state, conv=torch.zeros_like(state.conv)))
"""F46, B14: a move carries the recurrent state and leaves the convolution."""

conv_channels_sliced = on_copy(lambda pool, _, state: altered(state, conv=_sliced(state.conv)))
"""F34, B36: the conv state is cut in two as one axis, and not q, k and v each by itself."""

heads_of_another_rank = on_copy(lambda pool, _, state: altered(state, temporal=state.temporal.roll(1, 1)))
"""F33: a rank gets the heads of the next."""

layers_off_by_one = on_copy(lambda pool, _, state: altered(state, temporal=state.temporal.roll(1, 0)))
"""B61: a layer gets the state of the one before it of its kind."""


def _through(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).to(x.dtype)


def _sliced(conv: Tensor) -> Tensor:
    """[L, W − 1, q|k|v] of two ranks, each of which took half of the axis, put together as if each had halves of q, k, v."""
    ranks = torch.tensor_split(conv, 2, dim=2)
    blocks = [torch.tensor_split(part, 3, dim=2) for part in ranks]
    return torch.cat([blocks[rank][block] for block in range(3) for rank in range(2)], 2)


def pages_beyond_state(base: type[Pool]) -> type[Pool]:
    """F25, B49, B73: a hit takes the attention cache as far as it matches, and the state of an earlier checkpoint.

    The earlier one is the longest stored whose pages the copied state's begin with; without one it is the state of no
    tokens (B68).
    """

    class Longer(base):  # type: ignore[misc, valid-type]
        def copy(self, source: int, destination: int) -> None:
            super().copy(source, destination)
            if not self._identity[destination]:
                return
            whole = self.load(destination)
            found = [slot for slot in range(len(self._pages)) if self._earlier(slot, whole)]
            best = max(found, key=lambda slot: len(self._pages[slot]), default=None)
            old = self.load(best) if best is not None else None
            temporal = old.temporal if old else torch.zeros_like(whole.temporal)
            conv = old.conv if old else torch.zeros_like(whole.conv)
            super().store(destination, altered(whole, temporal=temporal, conv=conv))

        def _earlier(self, slot: int, whole: SequenceState) -> bool:
            pages = self._pages[slot]
            return bool(
                self._identity[slot]
                and 0 < len(pages) < len(whole.pages)
                and np.array_equal(pages, whole.pages[: len(pages)])
            )

    return Longer


def conv_bleeds(base: type[Pool]) -> type[Pool]:
    """F30: the window of an extend shorter than it begins with the last input of the sequence stored before it."""

    class Bleeds(base):  # type: ignore[misc, valid-type]
        _before: Tensor | None = None

        def store(self, slot: int, state: SequenceState) -> None:
            history, before = state.conv.shape[1], self._before
            if len(state.pages) < history and before is not None:
                conv = state.conv.clone()
                conv[:, 0] = before
                state = altered(state, conv=conv)
            elif len(state.pages) >= history:
                self._before = state.conv[:, -1].clone()
            super().store(slot, state)

    return Bleeds


def stores_the_neighbour(base: type[Pool]) -> type[Pool]:
    """A store is one slot too wide."""

    class Wide(base):  # type: ignore[misc, valid-type]
        def store(self, slot: int, state: SequenceState) -> None:
            super().store(slot, state)
            self._temporal[(slot + 1) % len(self._temporal)] = self._temporal[slot]

    return Wide


def moves(base: type[Pool]) -> type[Pool]:
    """A copy takes its source's state away."""

    class Moves(base):  # type: ignore[misc, valid-type]
        def copy(self, source: int, destination: int) -> None:
            super().copy(source, destination)
            self._temporal[source] = torch.zeros_like(self._temporal[source])

    return Moves


def keeps_freed(base: type[Pool]) -> type[Pool]:
    """A freed slot keeps its state, and can be read."""

    class Keeps(base):  # type: ignore[misc, valid-type]
        def free(self, slot: int) -> None:
            pass

    return Keeps


def keeps_names(base: type[Pool]) -> type[Pool]:
    """A freed slot is poisoned and can still be read."""

    class Keeps(base):  # type: ignore[misc, valid-type]
        def free(self, slot: int) -> None:
            name = self._identity[slot]
            super().free(slot)
            self._identity[slot] = name

    return Keeps


def clears_half(base: type[Pool]) -> type[Pool]:
    """A clear leaves the convolution of the last owner."""

    class Half(base):  # type: ignore[misc, valid-type]
        def clear(self, slot: int) -> None:
            kept: Any = self._conv[slot]
            super().clear(slot)
            self._conv[slot] = kept

    return Half


def casting(base: type[Pool], cast: Callable[[Tensor, torch.dtype], Tensor]) -> type[Pool]:
    """Slots whose stores cast in another way. What the cast gives is of the pool's dtype, so that storing it is exact."""

    class Casting(base):  # type: ignore[misc, valid-type]
        def store(self, slot: int, state: SequenceState) -> None:
            found = cast(state.temporal.to(torch.float32), self.dtype)
            super().store(slot, altered(state, temporal=found.to(torch.float32)))

    return Casting
