"""What all adapters share: packing the contract's inputs for Triton kernels, and putting their outputs together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..contract import Forward, KdaInputs, KdaOutput, SnapshotRow, SnapshotSource
from ..precision import Precision
from ..recipe import Recipe
from .provider import Capabilities, PoolForward, ProviderError
from .shim import KernelModules

CHUNK = 64
"""Chunk of the three packages' chunk kernels; their per-chunk states lie one after the other, ⌈length/64⌉ a sequence."""

_DTYPES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16, Precision.FP32: torch.float32}


@dataclass(frozen=True)
class Packed:
    """Inputs of a kernel call, each in memory of its own (some kernels write o into v).

    Attributes:
        q, k: [1, N, H, K]; v: [1, N, HV, V]; a: [1, N, HV, K], or [1, N, HV] for GDN; b: [1, N, HV]; activation dtype.
        A_log: [HV]; dt_bias: [HV·K], or [HV] for GDN; fp32.
        cu_seqlens: [R + 1] int32, as the engines pass it.
        scale: K^-½.
        bound: the decay's lower bound or None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    b: Tensor
    A_log: Tensor
    dt_bias: Tensor
    cu_seqlens: Tensor
    scale: float
    bound: float | None

    def mixed(self) -> Tensor:
        """[N, 2·H·K + HV·V]: q, k, v of a token side by side, as the convolution leaves them."""
        return torch.cat([x[0].flatten(1) for x in (self.q, self.k, self.v)], dim=1)

    def views(self) -> list[Tensor]:
        """q, k, v as views of one buffer with one token stride, as kernels with strides get them."""
        parts = (self.q, self.k, self.v)
        columns = self.mixed().split([x[0, 0].numel() for x in parts], dim=1)
        return [column.unflatten(1, x.shape[2:])[None] for x, column in zip(parts, columns, strict=True)]


def pack(inputs: KdaInputs, recipe: Recipe) -> Packed:
    """Cast to the recipe's activation dtype: exact, as the inputs hold values of that precision.

    Raises:
        ProviderError: the recipe's activations are in no dtype that a kernel takes (fp64).
    """
    if recipe.activation not in _DTYPES:
        raise ProviderError(
            f"recipe {recipe.name!r} has {recipe.activation} activations; kernels take bf16, fp16, fp32"
        )
    q, k, v, a, b = (
        x.to(_DTYPES[recipe.activation], copy=True).contiguous()[None]
        for x in (inputs.q, inputs.k, inputs.v, inputs.a, inputs.b)
    )
    return Packed(
        q=q,
        k=k,
        v=v,
        a=a[..., 0].contiguous() if a.shape[-1] == 1 else a,
        b=b,
        A_log=inputs.A_log.float().contiguous(),
        dt_bias=inputs.dt_bias.float().reshape(-1).contiguous(),
        cu_seqlens=torch.tensor(inputs.offsets, dtype=torch.int32, device=inputs.q.device),
        scale=inputs.k.shape[-1] ** -0.5,
        bound=inputs.lower_bound,
    )


def chunk_states(h: Tensor, inputs: KdaInputs, rows: Sequence[SnapshotRow]) -> dict[SnapshotRow, Tensor]:
    """The rows of h [1, chunks, HV, V, K] that are asked for."""
    firsts = [0]
    for length in inputs.lengths():
        firsts.append(firsts[-1] - -length // CHUNK)
    wanted = [row for row in rows if row.source is SnapshotSource.CHUNK_STATE]
    return {row: h[0, firsts[row.sequence] + row.chunk].float() for row in wanted}


def assemble(
    o: Tensor, final: Tensor, rows: Sequence[SnapshotRow], taps: Mapping[SnapshotRow, Tensor], like: Tensor
) -> KdaOutput:
    """The contract's output in the container dtype of ``like``; final states are taken from ``final`` [R, HV, V, K]."""
    final = final.to(like.dtype)
    picked = [final[r.sequence] if r.source is SnapshotSource.FINAL else taps[r].to(like.dtype) for r in rows]
    return KdaOutput(o.to(like.dtype), final, torch.stack(picked) if picked else final[:0])


def interior(rows: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """The rows that aren't final states, each once."""
    return list(dict.fromkeys(row for row in rows if row.source is not SnapshotSource.FINAL))


def rounds(rows: Sequence[SnapshotRow]) -> list[list[SnapshotRow]]:
    """Interior rows split so that a round has at most one accumulator of each sequence; there is always a first round."""
    split: list[list[SnapshotRow]] = [[]]
    for row in interior(rows):
        taken = row.source is SnapshotSource.ACCUMULATOR
        free = [part for part in split if not taken or all(row.sequence != r.sequence for r in accumulators(part))]
        if not free:
            free = [[]]
            split += free
        free[0].append(row)
    return split


def accumulators(rows: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """Of the rows, those that want the fp32 accumulator."""
    return [row for row in rows if row.source is SnapshotSource.ACCUMULATOR]


def from_pool(call: PoolForward, can: Capabilities) -> Forward:
    """A pure function from an in-place call: it gets an fp32 pool of its own, so finals are the accumulators.

    The null slot, where there is one, holds NaN, which would show in the output if a kernel read it. Where a call can
    take one snapshot of a sequence, it is made again for each further one.
    """

    def forward(inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        taps: dict[SnapshotRow, Tensor] = {}
        for part in rounds(rows) if can.snapshots_a_call == 1 else [interior(rows)]:
            pool = initial.new_full(
                (can.first_slot + inputs.sequences, *initial.shape[1:]), torch.nan, dtype=torch.float32
            )
            pool[can.first_slot :] = initial
            result = call(inputs, pool, range(can.first_slot, pool.shape[0]), part, recipe)
            taps.update(result.taps)
        return assemble(result.o, pool[can.first_slot :], rows, taps, inputs.v)

    return forward


def guarded(modules: KernelModules, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the package's modules importable, on the inputs' device, without autograd."""

    @wraps(function)
    def call(inputs: KdaInputs, *rest: Any) -> Any:
        with modules.active(), torch.no_grad(), on_device(inputs.q):
            return function(inputs, *rest)

    return call


@contextmanager
def on_device(x: Tensor) -> Iterator[None]:
    """Triton launches on the current device, whichever device its tensors are on."""
    if x.is_cuda:
        with torch.cuda.device(x.device):
            yield
    else:
        yield


@contextmanager
def recorded(
    module: ModuleType, name: str, wanted: bool, keep: Callable[[Any], Any] = lambda result: result
) -> Iterator[list[Any]]:
    """Collect what ``module.name`` returns while the block runs: a tap for values that the public call drops.

    The arithmetic and the launches stay as they are; only the returned tensors (or what ``keep`` makes of them) are kept
    alive longer. The list stays empty where nothing is wanted.
    """
    if not wanted:
        yield []
        return
    original, results = getattr(module, name), []

    @wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        results.append(keep(result))
        return result

    setattr(module, name, wrapper)
    try:
        yield results
    finally:
        setattr(module, name, original)
