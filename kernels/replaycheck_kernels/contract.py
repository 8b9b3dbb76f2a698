"""The one call that all implementations of KDA and GDN share, and what an implementation declares.

Shapes: N tokens of R sequences packed back to back (varlen), H heads of q and k, HV value heads, key width K, value width
V. A state is [V, K] per value head with K contiguous. Inputs hold values of the recipe's activation precision in an fp32
container (fp64 for ``oracle``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from .grid import chunk_starts
from .recipe import Recipe

LOWEST_BOUND = -5.0
"""Least lower bound of a decay. Engines refuse less (fla-core 0.6.0, ops/kda/chunk.py:481): over the 16 tokens of a diagonal
block it gives factors of at most 2^(15·5·log2 e) = 2^108, and fp32 ends at 2^128."""


class SnapshotSource(StrEnum):
    """Which tensor of the kernel a snapshot is read from."""

    #: the accumulator that is carried over chunks (fp32 registers)
    ACCUMULATOR = "accumulator"
    #: the per-chunk state h[c] as stored for the output pass (activation dtype)
    CHUNK_STATE = "chunk-state"
    #: the state after the sequence's last token
    FINAL = "final"


@dataclass(frozen=True)
class SnapshotRow:
    """Ask for the state of ``sequence`` at the start of its chunk ``chunk`` (or its final state) in ``destination``."""

    sequence: int
    chunk: int
    destination: int
    source: SnapshotSource


@dataclass(frozen=True)
class KdaInputs:
    """The tensors of one call.

    Attributes:
        q, k: [N, H, K] after convolution and SiLU, before the norm.
        v: [N, HV, V]. HV is a multiple of H; value head h reads q and k of head h // (HV / H), as in the engines.
        a: [N, HV, K] raw decay, before bias and activation; [N, HV, 1] with one decay a head (GDN).
        b: [N, HV] raw beta, before the sigmoid.
        A_log: [HV], fp32 (natural log of the decay rate).
        dt_bias: [HV, K] or, as a, [HV, 1]; fp32.
        offsets: R + 1 token offsets of the packed sequences.
        starts: absolute position of each sequence's first token; used by recipes with an absolute grid only.
        lower_bound: L of the bounded decay L·sigmoid(exp(A_log)·(a + dt_bias)); None for −exp(A_log)·softplus(…).

    Raises:
        ValueError: a lower bound outside −5 ≤ L < 0.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    b: Tensor
    A_log: Tensor
    dt_bias: Tensor
    offsets: tuple[int, ...]
    starts: tuple[int, ...] = field(default=())
    lower_bound: float | None = None

    def __post_init__(self) -> None:
        if self.lower_bound is not None and not LOWEST_BOUND <= self.lower_bound < 0:
            raise ValueError(
                f"lower bound of the decay is {self.lower_bound}; it must be from {LOWEST_BOUND:g} to under 0"
            )

    @property
    def per_head(self) -> bool:
        """One decay a head, not one a channel."""
        return self.a.shape[-1] == 1

    def to_value_heads(self, x: Tensor) -> Tensor:
        """[N, H, …] to [N, HV, …]: each head of q or k repeated for the value heads that read it."""
        group = self.v.shape[1] // x.shape[1]
        return x if group == 1 else x.repeat_interleave(group, 1)

    @property
    def sequences(self) -> int:
        """R, how many are packed."""
        return len(self.offsets) - 1

    def start(self, sequence: int) -> int:
        """Absolute position of the sequence's first token; 0 where the caller gave none."""
        return self.starts[sequence] if self.starts else 0

    def lengths(self) -> list[int]:
        """[R] tokens of each sequence."""
        return [end - start for start, end in zip(self.offsets, self.offsets[1:], strict=False)]

    def to(self, device: torch.device | str) -> KdaInputs:
        """The same inputs on another device."""
        tensors: dict[str, Any] = {
            f.name: x.to(device) for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)
        }
        return replace(self, **tensors)

    def between(self, first: int, last: int) -> KdaInputs:
        """The sequences ``first`` … ``last`` − 1 as a pack of their own; tensors are views."""
        begin, end = self.offsets[first], self.offsets[last]
        parts: dict[str, Any] = {name: getattr(self, name)[begin:end] for name in ("q", "k", "v", "a", "b")}
        offsets = tuple(offset - begin for offset in self.offsets[first : last + 1])
        return replace(self, **parts, offsets=offsets, starts=self.starts[first:last])


@dataclass(frozen=True)
class KdaOutput:
    """o: [N, HV, V]; final: [R, HV, V, K] accumulators; snapshots: [len(rows), HV, V, K] in the rows' order."""

    o: Tensor
    final: Tensor
    snapshots: Tensor


def concatenate(outputs: Sequence[KdaOutput]) -> KdaOutput:
    """Outputs of neighbouring packs as those of one."""
    if len(outputs) == 1:
        return outputs[0]
    return KdaOutput(*(torch.cat([getattr(output, f.name) for output in outputs]) for f in fields(KdaOutput)))


Forward = Callable[[KdaInputs, Tensor, Sequence[SnapshotRow], Recipe], KdaOutput]


@dataclass(frozen=True)
class StateKernel:
    """An implementation: its name, its form, what it can do, and the call.

    Attributes:
        name: recorded by a run, e.g. ``ours/chunk-emulator``.
        form: ``chunk`` or ``recurrent``.
        sources: snapshot sources it can read.
        recipes: recipe names it runs; None means any recipe.
        forward: pure function of inputs and initial states [R, HV, V, K]; it doesn't write to its arguments.
    """

    name: str
    form: str
    sources: frozenset[SnapshotSource]
    recipes: frozenset[str] | None
    forward: Forward

    def __call__(
        self, inputs: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe
    ) -> KdaOutput:
        self.check(inputs, tuple(initial.shape), snapshots, recipe)
        return self.forward(inputs, initial, snapshots, recipe)

    def check(self, inputs: KdaInputs, states: tuple[int, ...], rows: Sequence[SnapshotRow], recipe: Recipe) -> None:
        """Refuse what the kernel can't do; no silent fallback. states: shape of the initial states.

        Raises:
            ValueError: with what was given and what is allowed.
        """
        if self.recipes is not None and recipe.name not in self.recipes:
            raise ValueError(
                f"{self.name} doesn't run recipe {recipe.name!r}; it runs {', '.join(sorted(self.recipes))}"
            )
        heads, value, key = inputs.v.shape[1], inputs.v.shape[2], inputs.k.shape[2]
        check_shapes(self.name, inputs)
        if states != (inputs.sequences, heads, value, key):
            raise ValueError(
                f"{self.name}: initial states have shape {states}; "
                f"[sequences, heads, V, K] = {(inputs.sequences, heads, value, key)} is needed"
            )
        if inputs.offsets[-1] != inputs.q.shape[0] or any(n < 1 for n in inputs.lengths()):
            raise ValueError(
                f"{self.name}: offsets {inputs.offsets} must rise by ≥ 1 and end at {inputs.q.shape[0]} tokens"
            )
        for row in rows:
            self._check_snapshot(row, inputs, recipe)

    def _check_snapshot(self, row: SnapshotRow, inputs: KdaInputs, recipe: Recipe) -> None:
        if row.source not in self.sources:
            allowed = ", ".join(sorted(self.sources))
            raise ValueError(f"{self.name} can't snapshot from {row.source!s}; it can from {allowed}")
        if not 0 <= row.sequence < inputs.sequences:
            raise ValueError(
                f"{self.name}: snapshot of sequence {row.sequence}; there are sequences 0 to {inputs.sequences - 1}"
            )
        chunks = len(chunk_starts(inputs.lengths()[row.sequence], inputs.start(row.sequence), recipe))
        if row.source is not SnapshotSource.FINAL and not 0 <= row.chunk < chunks:
            raise ValueError(
                f"{self.name}: snapshot of chunk {row.chunk} of sequence {row.sequence}, "
                f"which has chunks 0 to {chunks - 1}"
            )


def check_shapes(name: str, x: KdaInputs) -> None:
    """Refuse inputs whose shapes don't fit each other; broadcasting would accept many of them.

    Raises:
        ValueError: with the tensor, its shape and what is needed, for the kernel ``name``.
    """
    tokens, heads, key = x.q.shape
    values = x.v.shape[1]
    if values % heads:
        raise ValueError(f"{name}: {values} value heads aren't a multiple of the {heads} heads of q and k")
    channels = 1 if x.per_head else key
    needed = {
        "k": (tokens, heads, key),
        "v": (tokens, values, x.v.shape[2]),
        "a": (tokens, values, channels),
        "b": (tokens, values),
        "A_log": (values,),
        "dt_bias": (values, channels),
    }
    for tensor, shape in needed.items():
        if tuple(getattr(x, tensor).shape) != shape:
            raise ValueError(f"{name}: {tensor} has shape {tuple(getattr(x, tensor).shape)}; {shape} is needed")


def run_on_slots(
    kernel: StateKernel,
    inputs: KdaInputs,
    pool: Tensor,
    sources: Sequence[int],
    destinations: Sequence[int],
    snapshots: Sequence[SnapshotRow],
    recipe: Recipe,
) -> Tensor:
    """Run ``kernel`` on states by slot: load, compute, store the finals and snapshots with one cast each, in place.

    Args:
        pool: [slots, HV, V, K] in the pool dtype.
        sources: slot of each sequence's initial state; −1 starts from zero.
        destinations: slot of each sequence's final state, ≥ 0.

    Returns:
        o: [N, HV, V].

    Raises:
        ValueError: a destination is negative, which would count from the pool's end; or the kernel can't do it.
    """
    stored = [*destinations, *(row.destination for row in snapshots)]
    if min(stored, default=0) < 0:
        raise ValueError(f"{kernel.name}: destinations {stored} must be slots from 0 to {pool.shape[0] - 1}")
    zero = torch.zeros(pool.shape[1:], dtype=inputs.v.dtype, device=pool.device)
    initial = torch.stack([zero if slot < 0 else pool[slot].to(inputs.v.dtype) for slot in sources])
    output = kernel(inputs, initial, snapshots, recipe)
    for row, state in zip(snapshots, output.snapshots, strict=True):
        pool[row.destination] = state.to(pool.dtype)
    for slot, state in zip(destinations, output.final, strict=True):
        pool[slot] = state.to(pool.dtype)
    return output.o
