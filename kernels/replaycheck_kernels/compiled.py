"""The recurrent form compiled for the CPU with numba: the sequential loop without Python and without temporaries.

States are turned, [HV, K, V] with V contiguous, so that the inner loops run over V and vectorise without reassociation:
every sum over K has the order k = 0, 1, …, and its bits depend on nothing else. numba doesn't contract a·b + c to a fused
operation unless asked to, so the order of roundings is that of the source. A state is read where it lies and written where
it will lie, once each: ``RecurrentCpu.at`` takes addresses. Through the contract's call, states [V, K] are turned before
and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from .contract import KdaInputs, KdaOutput, SnapshotRow, StateKernel
from .precision import round_to
from .recipe import Recipe
from .recurrent import _SOURCES, activate, tap_points

F32 = NDArray[np.float32]
Addresses = NDArray[np.int64]

_TILE = 8


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _turn(a: F32, b: F32) -> None:
    """b [N, M] = a [M, N] transposed, in tiles that stay in the first-level cache.

    Measured: 12 states of 128 × 128 take 58 µs, torch's copy to a transposed tensor 210.
    """
    M, N = a.shape
    whole_m, whole_n = M - M % _TILE, N - N % _TILE
    for i in range(0, whole_m, _TILE):
        for j in range(0, whole_n, _TILE):
            for n in range(_TILE):
                for m in range(_TILE):
                    b[j + n, i + m] = a[i + m, j + n]
        for j in range(whole_n, N):
            for m in range(_TILE):
                b[j, i + m] = a[i + m, j]
    for i in range(whole_m, M):
        for j in range(N):
            b[j, i] = a[i, j]


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _turn_all(a: Any, b: Any) -> None:
    """b [B, N, M] = a [B, M, N], each transposed."""
    for i in range(a.shape[0]):
        _turn(a[i], b[i])


def turned(x: Tensor) -> Tensor:
    """x with its last two axes turned in memory: the same values and shape, the last axis but one contiguous.

    Args:
        x: [..., M, N] fp32 on the CPU, of any strides; returned as it is where it is turned already.
    """
    if x.transpose(-1, -2).is_contiguous():
        return x
    *batch, M, N = x.shape
    out = x.new_empty((*batch, N, M))
    turn: Any = _turn_all  # numba's stubs give a dispatcher no arguments
    turn(x.contiguous().view(-1, M, N).numpy(), out.view(-1, N, M).numpy())
    return out.transpose(-1, -2)


def straight(x: Tensor) -> Tensor:
    """The inverse of :func:`turned`: contiguous."""
    return x if x.is_contiguous() else turned(x.transpose(-1, -2)).transpose(-1, -2)


def _pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer to fp32, in compiled code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer
    return pointer(types.float32)(types.int64), code


# numba's stubs don't know either.
_floats: Any = intrinsic(_pointer)
_array: Any = numba.carray  # type: ignore[attr-defined]


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _add_token(S: Any, k: Any, q: Any, v: Any, beta: Any, seen: Any, u: Any, out: Any) -> None:
    """S [K, V], decayed, with seen = S k: the delta, the write and the output."""
    K, V = S.shape
    for i in range(V):
        u[i] = beta * (v[i] - seen[i])
    out[:] = 0
    for j in range(K):
        x, y = k[j], q[j]
        for i in range(V):
            S[j, i] = S[j, i] + u[i] * x
            out[i] += S[j, i] * y


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _scan(
    sources: Addresses,
    destinations: Addresses,
    taps: Addresses,
    q: F32,
    k: F32,
    v: F32,
    decay: F32,
    beta: F32,
    offsets: Any,
    points: Any,
    owners: Any,
    o: F32,
) -> None:
    """States [HV, K, V] at sources [R] to destinations [R], which are others; taps [P], before token points[p] of
    sequence owners[p]."""
    H, K, V = q.shape[1], q.shape[2], v.shape[2]
    seen = np.empty(V, np.float32)
    u = np.empty(V, np.float32)
    out = np.empty(V, np.float32)
    for r in range(sources.shape[0]):
        for h in range(H):
            place = 4 * h * K * V
            before = _array(_floats(sources[r] + place), (K, V))
            S = _array(_floats(destinations[r] + place), (K, V))
            for t in range(offsets[r], offsets[r + 1]):
                first = t == offsets[r]
                for p in range(points.shape[0]):
                    if points[p] == t and owners[p] == r:
                        _array(_floats(taps[p] + place), (K, V))[:] = before if first else S
                seen[:] = 0
                # Two loops: one over both arrays, which may be the same memory, wouldn't vectorise.
                if first:
                    for j in range(K):
                        d, x = decay[t, h, j], k[t, h, j]
                        for i in range(V):
                            S[j, i] = before[j, i] * d
                            seen[i] += S[j, i] * x
                else:
                    for j in range(K):
                        d, x = decay[t, h, j], k[t, h, j]
                        for i in range(V):
                            S[j, i] = S[j, i] * d
                            seen[i] += S[j, i] * x
                _add_token(S, k[t, h], q[t, h], v[t, h], beta[t, h], seen, u, out)
                for i in range(V):
                    o[t, h, i] = out[i]


def compiles(recipe: Recipe) -> bool:
    """Whether the loop has the recipe's order; everything before the recurrence is shared with ``recurrent``."""
    return recipe.decay_at == "first"


class RecurrentCpu:
    """The kernel's call, on states of its own and on states where they lie."""

    def __call__(self, x: KdaInputs, initial: Tensor, snapshots: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        """The contract of :class:`StateKernel` on fp32 CPU tensors."""
        if initial.dtype is not torch.float32 or initial.device.type != "cpu":
            raise ValueError(
                f"ours/recurrent-cpu takes fp32 states on the CPU, not {initial.dtype} on {initial.device}"
            )
        before = turned(initial)
        after = torch.empty_like(before.transpose(2, 3), memory_format=torch.contiguous_format)
        taps = after.new_empty((len(snapshots), *after.shape[1:]))
        inside = tap_points(x, snapshots, recipe)
        o = self.at(
            x, addresses(list(before)), addresses(list(after)), inside, snapshots, addresses(list(taps)), recipe
        )
        for i, point in enumerate(inside):
            if point < 0:
                taps[i] = after[snapshots[i].sequence]
        return KdaOutput(o, *(straight(states.transpose(2, 3)) for states in (after, taps)))

    def at(
        self,
        inputs: KdaInputs,
        sources: Addresses,
        destinations: Addresses,
        points: Sequence[int],
        snapshots: Sequence[SnapshotRow],
        taps: Addresses,
        recipe: Recipe,
    ) -> Tensor:
        """The same on states at addresses, each [HV, K, V] fp32 without gaps; no two of those written may overlap.

        Args:
            sources, destinations: [R]. points: of the snapshots (``tap_points``); taps [P]: where they go; those of final
                states, whose point is −1, aren't written.

        Returns:
            o: [N, HV, V].
        """
        if not compiles(recipe):
            raise ValueError("ours/recurrent-cpu has no decay_at = last; take ours/recurrent-torch")
        x, o = activate(inputs, recipe), torch.empty_like(inputs.v, memory_format=torch.contiguous_format)
        arrays = [t.contiguous().numpy() for t in (x.q, x.k, x.v, x.decay, x.beta)]
        owners = np.array([row.sequence for row in snapshots], np.int64)
        integers = [np.array(inputs.offsets, np.int64), np.array(points, np.int64), owners]
        scan: Any = _scan  # numba's stubs give a dispatcher no arguments
        scan(sources, destinations, taps, *arrays, *integers, o.numpy())
        return round_to(o, recipe.output, recipe.rounding)


def addresses(states: Sequence[Tensor]) -> Addresses:
    """Where the tensors begin: [n] int64. Whoever uses them keeps the tensors."""
    return np.array([state.data_ptr() for state in states], np.int64)


RECURRENT_CPU = StateKernel("ours/recurrent-cpu", "recurrent", _SOURCES, None, RecurrentCpu())
