"""The four ways to roll back, step by step on pools: the slow reference that plans, kernels and the lab are tested against.

All take the same steps (windows, how many tokens were kept) and expose what a next step would read. R requests share a
step; each layer gets its own windows. States enter by ``start``, as after a prefill.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import StateKernel
from ..recipe import Recipe
from .commit import NULL, Align, Decays, plan_commit, rebuild, running_slot
from .conv_window import columns, compact, put, read, roll_in
from .copies import CopyPlan, copy_conv, copy_temporal
from .pools import Geometry, Pools
from .ring import Ring, replay
from .verify import each_position, verify
from .window import Windows


@dataclass(frozen=True)
class Step:
    """One verify of R requests.

    Attributes:
        layers: a batch of windows a layer, of equal lengths.
        mixed: [L, R, Q, D] inputs of the convolution.
        kept: tokens of each window that sampling kept, the verified first one included: 1 to its length.
    """

    layers: Sequence[Windows]
    mixed: Tensor
    kept: tuple[int, ...]

    @property
    def lengths(self) -> Tensor:
        return self.layers[0].lengths

    def kept_tensor(self) -> Tensor:
        return torch.tensor(self.kept, device=self.mixed.device)


class Rollback(ABC):
    """One way: ``start`` once, then ``step`` again and again.

    Args:
        shape: of all layers. width: Q. rows: R. dtype: of the pool. kernel: the recurrent form; recipe: how it rounds.
    """

    def __init__(
        self, shape: Geometry, width: int, rows: int, dtype: torch.dtype, kernel: StateKernel, recipe: Recipe
    ) -> None:
        self.shape, self.width, self.rows, self.dtype = shape, width, rows, dtype
        self.kernel, self.recipe = kernel, recipe

    @abstractmethod
    def start(self, temporal: Tensor, conv: Tensor) -> None:
        """Store states [L, R, HV, V, K] (one cast) and convolution histories [L, R, h, D]."""

    @abstractmethod
    def step(self, step: Step) -> list[Tensor]:
        """Verify and roll back; returns o [R, Q, HV, V] of each layer."""

    @abstractmethod
    def temporal(self) -> Tensor:
        """[L, R, HV, V, K]: the state that the next step starts from."""

    @abstractmethod
    def conv(self) -> Tensor:
        """[L, R, h, D]: the convolution history that the next step starts from."""

    def _empty(self, like: Tensor, slots: int, columns: int) -> Pools:
        """Pools on the device of ``like``; by default request r is in slot r + 1."""
        self.slots = torch.arange(1, self.rows + 1, device=like.device)
        return Pools.empty(self.shape, slots, columns, self.dtype, device=like.device)

    def _live(self, stored: Tensor) -> Tensor:
        """Upcast to the dtype of the computation."""
        return stored.to(torch.float64 if stored.dtype is torch.float64 else torch.float32)


class SlotSelection(Rollback):
    """(a) A slot for every position; rolling back is choosing one. The convolution keeps one extended window."""

    def start(self, temporal: Tensor, conv: Tensor) -> None:
        self.pools = self._empty(temporal, self.rows * self.width + 1, columns(self.shape.history, self.width))
        self.table = torch.arange(1, self.rows * self.width + 1, device=temporal.device).view(self.rows, self.width)
        self.column = torch.zeros_like(self.slots)
        self.pools.temporal[:, self.table[:, 0]] = temporal.to(self.dtype)
        self.pools.conv[:, self.table[:, 0], : self.shape.history] = conv

    def step(self, step: Step) -> list[Tensor]:
        outputs, window, history = [], self.table[:, 0], self.conv()
        for layer, windows in enumerate(step.layers):
            pool = self.pools.temporal[layer]
            o, states = each_position(self.kernel, windows, self._live(pool[self._current()]), self.recipe)
            for position, state in enumerate(states):
                put(pool, torch.where(step.lengths > position, self.table[:, position], 0), state)
            conv = self.pools.conv[layer]
            conv[window] = roll_in(history[layer], step.mixed[layer], step.lengths, conv[window])
            outputs.append(o)
        self.column = step.kept_tensor() - 1
        return outputs

    def _current(self) -> Tensor:
        return self.table.gather(1, self.column[:, None])[:, 0]

    def temporal(self) -> Tensor:
        return self.pools.temporal[:, self._current()]

    def conv(self) -> Tensor:
        history = self.shape.history
        return torch.stack([read(conv, self.table[:, 0], self.column, history) for conv in self.pools.conv])


class CopyBack(Rollback):
    """(b) Verify writes a scratch buffer; the state at the verification point is copied back over all layers at once."""

    def start(self, temporal: Tensor, conv: Tensor) -> None:
        self.pools = self._empty(temporal, self.rows + 1, self.shape.history)
        self.pools.temporal[:, self.slots] = temporal.to(self.dtype)
        self.pools.conv[:, self.slots] = conv
        self.scratch = self._empty(temporal, self.rows * self.width + 1, columns(self.shape.history, self.width))

    def step(self, step: Step) -> list[Tensor]:
        outputs, places = [], 1 + (self.slots - 1) * self.width
        for layer, windows in enumerate(step.layers):
            pool, conv = self.pools.temporal[layer], self.scratch.conv[layer]
            o, states = each_position(self.kernel, windows, self._live(pool[self.slots]), self.recipe)
            for position, state in enumerate(states):
                put(self.scratch.temporal[layer], torch.where(step.lengths > position, places + position, 0), state)
            history = self.pools.conv[layer, self.slots]
            conv[self.slots] = roll_in(history, step.mixed[layer], step.lengths, conv[self.slots])
            outputs.append(o)
        self._copy_back(places, step.kept_tensor())
        return outputs

    def _copy_back(self, places: Tensor, kept: Tensor) -> None:
        """The temporal state by slot, the convolution by offset."""
        copy_temporal(
            self.scratch.temporal, self.pools.temporal, CopyPlan(places + kept - 1, self.slots, torch.zeros_like(kept))
        )
        copy_conv(self.scratch.conv, self.pools.conv, CopyPlan(self.slots, self.slots, kept - 1), self.shape.history)

    def temporal(self) -> Tensor:
        return self.pools.temporal[:, self.slots]

    def conv(self) -> Tensor:
        return self.pools.conv[:, self.slots]


class Recover(Rollback):
    """(c) One checkpoint a request, read only while verifying; after sampling it is rebuilt from the records.

    With ``align`` each request has a row of blocks; a window that crosses a block's end stores the state there, too.
    """

    align: Align | None = None

    def start(self, temporal: Tensor, conv: Tensor) -> None:
        slots = self.rows + 1 if self.align is None else int(self.align.table.max()) + 1
        self.pools = self._empty(temporal, slots, columns(self.shape.history, self.width))
        if self.align is not None:
            self.slots = self.align.table[:, 0]
        self.pools.temporal[:, self.slots] = temporal.to(self.dtype)
        self.pools.conv[:, self.slots, : self.shape.history] = conv

    def step(self, step: Step) -> list[Tensor]:
        self._move_on(step.lengths)
        plan = plan_commit(step.kept_tensor(), step.lengths, self.slots, self.width, self.align)
        outputs, history = [], self.conv()
        for layer, windows in enumerate(step.layers):
            pool, conv = self.pools.temporal[layer], self.pools.conv[layer]
            checkpoint = self._live(pool[self.slots])
            done = verify(windows, checkpoint, self.recipe)
            conv[self.slots] = roll_in(history[layer], step.mixed[layer], step.lengths, conv[self.slots])
            x = windows.inputs
            decays = Decays(x.A_log, x.dt_bias, x.lower_bound)
            for slots, length in ((plan.boundary, plan.boundary_length), (plan.final, plan.length)):
                put(pool, slots, rebuild(checkpoint, done.records, length, decays, self.recipe))
            compact(conv, plan, self.shape.history)
            outputs.append(done.o)
        self._advance(plan.length, plan.final)
        return outputs

    def _move_on(self, lengths: Tensor) -> None:
        """Copy checkpoints to the block that the step works in, so that completed blocks stay as they are."""
        if self.align is None:
            return
        running = running_slot(self.align, lengths)
        # A pair of equal slots would do nothing; NULL says so.
        plan = CopyPlan(self.slots, torch.where(running == self.slots, NULL, running), torch.zeros_like(running))
        copy_temporal(self.pools.temporal, self.pools.temporal, plan)
        copy_conv(self.pools.conv, self.pools.conv, plan, self.shape.history)
        self.slots = running

    def _advance(self, length: Tensor, final: Tensor) -> None:
        """What the engine's bookkeeping does after a commit: tokens computed, and the running block."""
        self.slots = torch.where(length > 0, final, self.slots)
        if self.align is not None:
            self.align = Align(self.align.table, self.align.computed + length, self.align.block)

    def temporal(self) -> Tensor:
        return self.pools.temporal[:, self.slots]

    def conv(self) -> Tensor:
        return self.pools.conv[:, self.slots, : self.shape.history]


class Replay(Rollback):
    """(d) A checkpoint and a ring of raw inputs; ``capacity`` tokens, folded when another window might not fit.

    A capacity equal to the width folds at every step. Between folds the checkpoint is behind, and ``temporal`` is live.
    """

    capacity = 0

    def start(self, temporal: Tensor, conv: Tensor) -> None:
        self.pools = self._empty(temporal, self.rows + 1, self.shape.history)
        self.pools.temporal[:, self.slots] = temporal.to(self.dtype)
        self.pools.conv[:, self.slots] = conv
        self.rings: list[Ring] = []

    def step(self, step: Step) -> list[Tensor]:
        if not self.rings:
            self.rings = [Ring(self.capacity, self.rows, windows.inputs) for windows in step.layers]
        live, outputs = self.temporal(), []
        for layer, windows in enumerate(step.layers):
            o, _ = each_position(self.kernel, windows, self._live(live[layer]), self.recipe)
            self.rings[layer].push(windows, step.kept)
            self._conv_step(layer, step)
            outputs.append(o)
        self._fold()
        return outputs

    def _conv_step(self, layer: int, step: Step) -> None:
        old = self.pools.conv[layer, self.slots]
        kept, history = step.kept_tensor(), self.shape.history
        line = torch.cat([old, step.mixed[layer]], 1)
        self.pools.conv[layer, self.slots] = read(line, self.slots - 1, kept, history)

    def _fold(self) -> None:
        """Fold the rows whose ring may have no room for another window."""
        full = [row for row in range(self.rows) if not self.rings[0].fits(row, self.width)]
        if not full:
            return
        live = self.temporal()
        self.pools.temporal[:, self.slots[full]] = live[:, full].to(self.dtype)
        for ring in self.rings:
            for row in full:
                ring.pop(row, ring.counts[row])

    def temporal(self) -> Tensor:
        stored = self._live(self.pools.temporal[:, self.slots])
        if not self.rings:
            return stored
        pairs = zip(self.rings, stored, strict=True)
        return torch.stack([replay(ring, checkpoint, self.kernel, self.recipe) for ring, checkpoint in pairs])

    def conv(self) -> Tensor:
        return self.pools.conv[:, self.slots]


METHODS: dict[str, type[Rollback]] = {
    "slots": SlotSelection,
    "copy": CopyBack,
    "recover": Recover,
    "replay": Replay,
}
