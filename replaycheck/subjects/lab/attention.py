"""Causal attention over a paged cache: every query by itself, keys in the order of positions.

A sequence's cache is a list of page numbers, one token a page, into one arena; pages are written once and never change, so
a restore or a fork copies the list. On the CPU the loop is compiled, and every sum has an order that depends on the number
of its terms alone, so a query's bits depend on its own keys and on nothing else. On a GPU a Triton kernel takes keys in
blocks of fixed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck_kernels import dense

from .device import uses_triton

_LANES = 16

_PAGES = 16384
"""Of a new arena; a group of the quick matrix takes 22,000 to 41,000."""


@numba.njit(cache=True, nogil=True, boundscheck=False, fastmath={"reassoc", "nsz"})
def _dot(a: Any, b: Any) -> Any:
    """a · b, both [D], in partial sums as the compiler vectorised the loop: an order that depends on D alone.

    Measured: 2.5 ms where sums in 16 explicit lanes take 9.9 (60 queries, 1,000 keys, 2 heads, D = 192; one core).
    """
    total = a.dtype.type(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _attend(q: Any, keys: Any, values: Any, pages: Any, page_start: Any, visible: Any, scale: float, out: Any) -> None:
    """q [N, H, D], keys [P, H, D], values [P, H, V]; query n sees pages[page_start[n] : page_start[n] + visible[n]].

    Values are added in the order of positions; four at a time, so that a sum stays in its register meanwhile.
    """
    N, H, _ = q.shape
    V = values.shape[2]
    for n in range(N):
        count = visible[n]
        mine = pages[page_start[n] : page_start[n] + count]
        score = np.empty(count, q.dtype)
        for h in range(H):
            top = -np.inf
            for t in range(count):
                score[t] = _dot(q[n, h], keys[mine[t], h]) * scale
                top = max(top, score[t])
            total = q.dtype.type(0)
            for t in range(count):
                score[t] = np.exp(score[t] - top)
                total += score[t]
            o = out[n, h]
            o[:] = 0
            fours = count - count % 4
            for t in range(0, fours, 4):
                w0, w1, w2, w3 = score[t] / total, score[t + 1] / total, score[t + 2] / total, score[t + 3] / total
                v0, v1, v2, v3 = (
                    values[mine[t], h],
                    values[mine[t + 1], h],
                    values[mine[t + 2], h],
                    values[mine[t + 3], h],
                )
                for i in range(V):
                    o[i] = (((o[i] + w0 * v0[i]) + w1 * v1[i]) + w2 * v2[i]) + w3 * v3[i]
            for t in range(fours, count):
                w, v = score[t] / total, values[mine[t], h]
                for i in range(V):
                    o[i] += w * v[i]


@dataclass(frozen=True)
class PageTable:
    """Which pages each query of a pass sees: pages[starts[n] : starts[n] + visible[n]]. int64, on the arena's device.

    ``blocks``: neighbouring queries that a GPU kernel may take together, which changes no bit.
    """

    pages: Tensor
    starts: Tensor
    visible: Tensor
    blocks: dense.QueryBlocks | None = None


def page_table(sequences: Sequence[NDArray[np.int64]], lengths: Sequence[int], device: torch.device) -> PageTable:
    """The table of packed queries, from each row's pages [p], made once a pass for all layers.

    Args:
        sequences: pages of each sequence, its own new tokens included. lengths: new tokens, the queries, of each.
    """
    totals = np.array([len(pages) for pages in sequences])
    starts = np.repeat(np.cumsum(totals) - totals, lengths)
    visible = np.concatenate([np.arange(t - n + 1, t + 1) for t, n in zip(totals, lengths, strict=True)])
    pages, first, count = (torch.from_numpy(x).to(device) for x in (np.concatenate(sequences), starts, visible))
    return PageTable(pages, first, count, _blocks(lengths, device))


def _blocks(lengths: Sequence[int], device: torch.device) -> dense.QueryBlocks | None:
    if not uses_triton(device):
        return None
    offsets = torch.tensor((0, *accumulate(lengths)), dtype=torch.int32)
    return dense.query_blocks(offsets.to(device), int(offsets[-1]))


class KeyValueArena:
    """Pages of keys [H, key] and values [H, value] of the attention layers, one token a page.

    Keys and values are kept expanded from the latents: with projections of a constant number of rows, expanding them at
    each use would give the same bits.
    """

    def __init__(
        self,
        layers: Sequence[int],
        heads: int,
        key: int,
        value: int,
        dtype: torch.dtype,
        device: torch.device = torch.device("cpu"),  # noqa: B008 (immutable)
    ) -> None:
        if key % _LANES:
            raise UsageError(
                f"attention keys of {key} elements; the lab takes multiples of {_LANES} (qk_nope + qk_rope head size)"
            )
        self._used = 0
        self._keys = {layer: torch.empty((0, heads, key), dtype=dtype, device=device) for layer in layers}
        self._values = {layer: torch.empty((0, heads, value), dtype=dtype, device=device) for layer in layers}

    def reset(self) -> None:
        """Forget all pages; their memory is used again."""
        self._used = 0

    def take(self, count: int) -> NDArray[np.int64]:
        """Numbers of ``count`` fresh pages, one after the other, the same for all layers."""
        before = self._used
        self._used += count
        for store in (self._keys, self._values):
            for layer, pages in store.items():
                if self._used > pages.shape[0]:
                    grown = pages.new_empty((max(2 * pages.shape[0], self._used, _PAGES), *pages.shape[1:]))
                    grown[:before] = pages[:before]
                    store[layer] = grown
        return np.arange(before, self._used, dtype=np.int64)

    def write(self, layer: int, first: int, keys: Tensor, values: Tensor) -> None:
        """keys [n, H, D] and values [n, H, V] of n fresh pages from page ``first`` on."""
        self._keys[layer][first : first + len(keys)] = keys
        self._values[layer][first : first + len(values)] = values

    def attend(self, layer: int, q: Tensor, table: PageTable, scale: float) -> Tensor:
        """Attention of packed queries.

        Args:
            q: [N, H, D]. table: what each of them sees.

        Returns:
            [N, H, V], not rounded.
        """
        keys, values = self._keys[layer], self._values[layer]
        if uses_triton(q.device):
            return dense.attend(q, keys, values, table.pages, table.starts, table.visible, scale, table.blocks)
        out = values.new_empty((q.shape[0], *values.shape[1:]))
        arrays = [x.numpy() for x in (q.contiguous(), keys, values, table.pages, table.starts, table.visible)]
        attention: Any = _attend  # numba's stubs give a dispatcher no arguments
        attention(*arrays, arrays[1].dtype.type(scale), out.numpy())
        return out
