"""The temporal states of one pass: where each row's lies before it, and where it will lie.

A kernel that takes addresses reads states where they lie and writes each once. Other kernels get their rows' states gathered
in one tensor, and what they make is copied out. Either way a state that a pass returns has memory of its own and nothing
writes to it again, so whoever wants to keep it keeps the tensor.

On the CPU states are turned in memory (:func:`replaycheck_kernels.compiled.turned`), as the compiled kernel reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from replaycheck.schema.arm import Rollback
from replaycheck_kernels.compiled import RecurrentCpu, addresses, straight, turned
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.recurrent import tap_points
from replaycheck_kernels.triton import kernels as triton

from .ring import pushed, replayed
from .rollback import Verify, run_windows
from .state import Ring

__all__ = ["CallRows", "PassStates", "copies", "stacked"]


@dataclass(frozen=True)
class CallRows:
    """Neighbouring rows that one call of a kernel computes: rows ``first`` … ``last`` − 1 of the pass.

    Attributes:
        form: of the kernel. verifies: of rows that are windows of speculation, all by ``method``; else none.
        snapshots: of each row, as (chunk, source); of a window, as (tokens, source).
    """

    first: int
    last: int
    form: str
    method: Rollback | None
    verifies: tuple[Verify, ...]
    snapshots: tuple[tuple[tuple[int, str], ...], ...]

    @property
    def asked(self) -> list[SnapshotRow]:
        """The snapshots as a kernel is asked for them, row by row."""
        rows = enumerate(self.snapshots)
        return [SnapshotRow(r, chunk, -1, SnapshotSource(source)) for r, asked in rows for chunk, source in asked]


class _Call(Protocol):
    """The states of a call's rows. run: one layer, returns o [N, H, V]. What is left are [L, H, V, K], one a row or tap."""

    rows: CallRows

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor: ...
    def finals(self) -> list[Tensor]: ...
    def snapshots(self) -> list[Tensor]: ...
    def rings(self) -> Sequence[Ring | None]: ...


class PassStates:
    """States of all rows of a pass; each layer is run once, in order."""

    def __init__(
        self,
        before: Sequence[Tensor],
        calls: Sequence[CallRows],
        kernels: Mapping[str, StateKernel],
        dtype: torch.dtype,
        rings: Sequence[Ring | None] = (),
    ) -> None:
        """before: [L, H, V, K] of each row, in any dtype that is exact in ``dtype``, the one of the computation. rings: of
        each row, what its state lacks."""
        self._calls: list[_Call] = []
        for rows in calls:
            mine = slice(rows.first, rows.last)
            if any(verify.lags for verify in rows.verifies):
                self._calls.append(_Lagging(before[mine], rows, kernels[rows.form], dtype, rings[mine]))
            else:
                self._calls.append(_call(before[mine], rows, kernels[rows.form], dtype))

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor:
        """Call each form's kernel once, on its neighbouring rows: o [N, H, V] in the order of the rows."""
        outputs = [call.run(layer, inputs.between(call.rows.first, call.rows.last), recipe) for call in self._calls]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def finals(self) -> list[Tensor]:
        """[L, H, V, K] of each row."""
        return [state for call in self._calls for state in call.finals()]

    def rings(self) -> list[Ring | None]:
        """Of each row whose window lags: the raw inputs that its state before lacks, and those that the window keeps."""
        return [ring for call in self._calls for ring in call.rings()]

    def snapshots(self) -> list[Tensor]:
        """[L, H, V, K] of each snapshot, row by row."""
        return [state for call in self._calls for state in call.snapshots()]


def _call(before: Sequence[Tensor], rows: CallRows, kernel: StateKernel, dtype: torch.dtype) -> _Call:
    alone = rows.method is None and dtype is torch.float32 and before[0].device.type == "cpu"
    if alone and isinstance(kernel.forward, RecurrentCpu):
        return _InPlace(before, rows, kernel, kernel.forward)
    if rows.method is None and kernel in triton.ALL:
        return _OnPool(before, rows, kernel, dtype)
    return _Gathered(before, rows, kernel, dtype)


class _InPlace:
    """For the compiled kernel: addresses of the states of layer 0, from which those of the others are counted."""

    def __init__(self, before: Sequence[Tensor], rows: CallRows, kernel: StateKernel, compiled: RecurrentCpu) -> None:
        self.rows = rows
        self._kernel, self._compiled = kernel, compiled
        self._before = [turned(state.to(torch.float32)) for state in before]
        self._finals = [_room(state) for state in self._before]
        self._asked = rows.asked
        self._taps = [
            self._finals[row.sequence] if row.source is SnapshotSource.FINAL else _room(self._before[0])
            for row in self._asked
        ]
        self._places = [addresses(states) for states in (self._before, self._finals, self._taps)]

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor:
        first = self._before[0][0]
        self._kernel.check(inputs, (len(self._before), *first.shape), self._asked, recipe)
        sources, destinations, taps = (each + layer * first.numel() * first.element_size() for each in self._places)
        points = tap_points(inputs, self._asked, recipe)
        return self._compiled.at(inputs, sources, destinations, points, self._asked, taps, recipe)

    def finals(self) -> list[Tensor]:
        return self._finals

    def snapshots(self) -> list[Tensor]:
        return self._taps

    def rings(self) -> Sequence[Ring | None]:
        return [None] * len(self._finals)


def _room(like: Tensor) -> Tensor:
    """Unwritten memory for a turned state."""
    return torch.empty_like(like.transpose(2, 3), memory_format=torch.contiguous_format).transpose(2, 3)


class _Gathered:
    """For kernels that take and make one tensor of all their rows' states."""

    def __init__(self, before: Sequence[Tensor], rows: CallRows, kernel: StateKernel, dtype: torch.dtype) -> None:
        self.rows = rows
        self._kernel = kernel
        on_cpu = before[0].device.type == "cpu"
        self._initial = stacked([straight(state.to(dtype)) for state in before] if on_cpu else before, dtype)
        self._made: list[tuple[Tensor, Tensor]] = []

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor:
        initial = self._initial[layer]
        if self.rows.method is None:
            output = self._kernel(inputs, initial, self.rows.asked, recipe)
        else:
            kept, taps = self._kept()
            output = run_windows(self.rows.method, inputs, initial, kept, taps, self._kernel, recipe)
        self._made.append((output.final, output.snapshots))
        return output.o

    def _kept(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Tokens that stay of each window, and further states as (row, tokens)."""
        kept = [verify.kept.temporal for verify in self.rows.verifies]
        asked = [(r, each) for r, row in enumerate(self.rows.snapshots) for each in row]
        return kept, [(r, kept[r] if source == SnapshotSource.FINAL else tokens) for r, (tokens, source) in asked]

    def finals(self) -> list[Tensor]:
        return _turned_copies(torch.stack([final for final, _ in self._made], 1))

    def snapshots(self) -> list[Tensor]:
        return _turned_copies(torch.stack([snapshots for _, snapshots in self._made], 1))

    def rings(self) -> Sequence[Ring | None]:
        return [None] * (self.rows.last - self.rows.first)


class _Lagging(_Gathered):
    """Windows whose states lag: what is in their rings runs first, then the window from there."""

    def __init__(
        self,
        before: Sequence[Tensor],
        rows: CallRows,
        kernel: StateKernel,
        dtype: torch.dtype,
        rings: Sequence[Ring | None],
    ) -> None:
        super().__init__(before, rows, kernel, dtype)
        self._before = rings
        self._after: list[list[KdaInputs]] = [[] for _ in before]

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor:
        pending = [ring[layer] if ring else None for ring in self._before]
        self._initial[layer] = replayed(self._initial[layer], pending, self._kernel, recipe)
        for row, verify in enumerate(self.rows.verifies):
            self._after[row].append(pushed(pending[row], inputs, row, verify.kept.temporal))
        return super().run(layer, inputs, recipe)

    def rings(self) -> Sequence[Ring | None]:
        return [tuple(layers) for layers in self._after]


class _OnPool(_Gathered):
    """For our Triton kernels: the gathered states of a layer are their pool, whose slot r is row r's, in place."""

    def run(self, layer: int, inputs: KdaInputs, recipe: Recipe) -> Tensor:
        pool, asked = self._initial[layer], self.rows.asked
        self._kernel.check(inputs, tuple(pool.shape), asked, recipe)
        done = triton.ON_POOL[self._kernel.name](inputs, pool, range(len(pool)), asked, recipe)
        taken = [pool[row.sequence] if row.source is SnapshotSource.FINAL else done.taps[row] for row in asked]
        self._made.append((pool, torch.stack(taken) if taken else pool[:0]))
        return done.o.to(inputs.v.dtype)


def _turned_copies(batch: Tensor) -> list[Tensor]:
    """[R, L, H, V, K] as R states, turned where the compiled kernel may read them."""
    if batch.device.type == "cpu" and batch.dtype is torch.float32:
        return [turned(state) for state in batch]
    return copies(batch)


def stacked(states: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """States [L, …] of R rows, widened exactly: [L, R, …]. Two launches on a GPU where they have one dtype."""
    if len({state.dtype for state in states}) > 1:
        states = [state.to(dtype) for state in states]
    return torch.stack(tuple(states), 1).to(dtype)


def copies(batch: Tensor) -> list[Tensor]:
    """The parts of a batch [R, ...] with memory of their own: one that is kept doesn't keep the others'. One launch."""
    parts = list(batch.unbind())
    made = [torch.empty_like(part) for part in parts]
    if made:
        torch._foreach_copy_(made, parts)
    return made
