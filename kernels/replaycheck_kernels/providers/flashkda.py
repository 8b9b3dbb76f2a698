"""FlashKDA: the CUDA prefill that vLLM prefers on Hopper and Blackwell where decays have a lower bound.

Called as vLLM 0.33.0 does (``_flashkda_prefill`` and ``is_flashkda_supported`` in ``vllm/models/kimi_k3/nvidia/kda.py``):
bf16, K = V = 128, raw decay and raw beta, states fp32 or bf16. It can store the state at one offset of each sequence, in the
states' dtype, at a multiple of its own chunk of 16. No preset describes its arithmetic, so it makes no recipe claim.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from ..recipe import Recipe
from .adapt import accumulators, from_pool, guarded, pack
from .decode import steps_before
from .platform import capability
from .provider import (
    Capabilities,
    Decay,
    MissingPackage,
    ModelKind,
    PoolForward,
    PoolResult,
    ProviderError,
    ProviderKernel,
    checked,
)
from .shim import KernelModules

_LIBRARY = "_flashkda_C.abi3.so"
_CAN = Capabilities(
    claims=(),
    pool_dtypes=(torch.float32, torch.bfloat16),
    decays=frozenset({Decay.LOWER_BOUND}),
    widest_key=128,
    widest_value=128,
    equal_widths=True,
    snapshots_a_call=1,
    note="CUDA, K = V = 128, compute capability 9, 10 or 12; asking for a snapshot passes another buffer to the kernel",
)


def load(name: str, modules: KernelModules) -> list[ProviderKernel]:
    """Load the extension; its operators stay registered in torch.

    Raises:
        MissingPackage: no such file.
        ProviderError: the device can't run it, or the library doesn't load with this torch and CUDA.
    """
    library = modules.root / _LIBRARY
    if not library.is_file():
        raise MissingPackage(f"{name}: no {_LIBRARY} in {modules.root}; take it from the wheel")
    if capability()[0] not in (9, 10, 12):
        raise ProviderError(f"{name}: needs a GPU of compute capability 9, 10 or 12; this one has {capability()}")
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        raise ProviderError(f"{name}: {_LIBRARY} doesn't load with torch {torch.__version__}: {error}") from None
    call: PoolForward = guarded(modules, _prefill)
    forward = checked(name, ModelKind.KDA, _CAN, from_pool(call, _CAN))
    sources = frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL})
    kernel = StateKernel(name, "chunk", sources, frozenset({"vllm"}), forward)
    return [ProviderKernel(ModelKind.KDA, kernel, _CAN, call)]


def _prefill(
    inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
) -> PoolResult:
    """Gather initial states, compute, scatter final states; a snapshot at token 0 is the initial state itself."""
    x, at = pack(inputs, recipe), torch.tensor(list(slots), device=pool.device)
    initial, wanted = pool[at], accumulators(rows)
    offsets = [0] * inputs.sequences
    for row, step in zip(wanted, steps_before(inputs, wanted, recipe), strict=True):
        offsets[row.sequence] = step
    o, final, stored = torch.empty_like(x.v), torch.empty_like(initial), torch.empty_like(initial)
    tokens, heads = x.k.shape[1:3]
    size = torch.ops._flashkda_C.get_workspace_size(tokens, heads, inputs.sequences)
    torch.ops._flashkda_C.fwd(
        x.q,
        x.k,
        x.v,
        x.a,
        x.b,
        x.scale,
        o,
        torch.empty(size, dtype=torch.uint8, device=pool.device),
        x.A_log,
        x.dt_bias.view(heads, -1),
        x.bound,
        initial,
        final,
        x.cu_seqlens,
        stored if any(offsets) else None,
        torch.tensor(offsets, dtype=torch.int32, device=pool.device) if any(offsets) else None,
    )
    pool[at] = final
    taps = {row: (stored if offsets[row.sequence] else initial)[row.sequence] for row in wanted}
    return PoolResult(o[0], taps)
