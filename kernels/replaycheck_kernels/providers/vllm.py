"""vLLM's Triton kernels: KDA as its Kimi K3 model runs it, and Gated DeltaNet.

Read in vLLM 0.33.0: ``vllm/models/kimi_k3/nvidia/ops/third_party/kda/{chunk,fused_recurrent}.py``, their caller
``kimi_k3/nvidia/kda.py``, and ``vllm/third_party/flash_linear_attention/ops``. Chunk kernels take gathered initial states
and return fp32 final states, which the engine then casts to the block's dtype; there is no interior fp32 snapshot in
Triton, and the per-chunk states stay inside, so they are taken where the inner function returns them. Decode kernels
update blocks in place; block 0 is the null block: reading it gives zeros, writing it is skipped.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from ..contract import Forward, SnapshotSource, StateKernel
from . import flashkda
from .adapt import from_pool, guarded
from .collect import collect
from .exposed import NORMS, Tap, exposing
from .platform import capability, dependent_launch, is_cuda, no, processors
from .provider import Capabilities, Decay, ModelKind, PoolForward, Provider, ProviderKernel, checked
from .shim import KernelModules, Source
from .vllm_calls import GDN_OPS, KDA_OPS, chunk_gdn, chunk_kda, packed_gdn, packed_kda, window_gdn, window_kda

_PLATFORM = SimpleNamespace(
    is_cuda=is_cuda,
    is_cuda_alike=is_cuda,
    is_rocm=no,
    is_xpu=no,
    is_cpu=no,
    is_arch_support_pdl=dependent_launch,
    has_device_capability=lambda least, device_id=0: 10 * capability()[0] + capability()[1] >= least,
    is_device_capability_family=lambda family, device_id=0: 10 * capability()[0] == family,
)


def _to_device(data: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return data.to(device=device, dtype=dtype)


def _triton_names() -> dict[str, object]:
    """What ``vllm.triton_utils`` exports to kernel files; empty without Triton, which loading then reports."""
    try:
        import triton
        import triton.language as tl
        from triton.language.extra import libdevice
    except ModuleNotFoundError:
        return {}
    return {"triton": triton, "tl": tl, "tldevice": libdevice}


def source() -> Source:
    """Built when asked for, because a stub exports Triton itself."""
    return Source(
        provider="vllm",
        package="vllm",
        distribution="vllm",
        tested=("0.33.0",),
        bare=("vllm.models.kimi_k3.nvidia.ops", "vllm.utils", GDN_OPS),
        stubs={
            "vllm.platforms": {"current_platform": _PLATFORM},
            "vllm.triton_utils": _triton_names(),
            "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": nullcontext},
            "vllm.utils.torch_utils": {"async_tensor_h2d": _to_device},
            "vllm.utils.platform_utils": {"num_compute_units": processors},
        },
    )


#: model_executor/layers/mamba/mamba_utils.py:133-151 refuses anything else.
_POOLS = (torch.float32, torch.bfloat16)
_CHUNK = Capabilities(("vllm",), pool_dtypes=_POOLS)
_IN_PLACE = replace(_CHUNK, first_slot=1)
_SOFTPLUS = frozenset({Decay.SOFTPLUS})
_STORED = frozenset({SnapshotSource.CHUNK_STATE, SnapshotSource.FINAL})
_DECODED = frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL})

_TAPS = (
    Tap(f"{KDA_OPS}.chunk", "l2norm_fwd", NORMS),
    Tap(f"{KDA_OPS}.chunk", "fused_kda_gate_chunk_cumsum", (("G", "beta"),)),
    Tap(f"{KDA_OPS}.chunk", "chunk_kda_fwd_intra", (("qk", "inverse"),)),
    Tap(f"{KDA_OPS}.chunk", "recompute_w_u_fwd", (("w", "u", None, "k_decayed"),)),
    Tap(f"{KDA_OPS}.chunk", "chunk_gated_delta_rule_fwd_h", (("h", "v_new"),)),
)


def provider(path: Path | None = None) -> Provider:
    """Load the kernels from the installed package or from ``path``.

    Raises:
        MissingPackage: vllm's files or Triton aren't there.
    """
    modules = KernelModules(source(), path)
    kda, gdn = ModelKind.KDA, ModelKind.GDN
    # No preset describes its Gated DeltaNet.
    gdn_decode = replace(_IN_PLACE, claims=(), decays=_SOFTPLUS, grouped_values=True)
    # _fused_post_conv_kernel gives one mask the widths of K and of V in two branches, which Triton 3.6 doesn't compile.
    gdn_chunk = replace(gdn_decode, first_slot=0, equal_widths=True)
    kernels, unavailable = collect(
        {
            "vllm/chunk_kda": lambda name: [_pure(name, kda, _CHUNK, modules, chunk_kda(modules))],
            "vllm/flashkda": lambda name: flashkda.load(name, modules),
            "vllm/kda_packed_decode": lambda name: [
                _pooled(name, kda, "recurrent", _IN_PLACE, modules, packed_kda(modules))
            ],
            "vllm/fused_recurrent_kda": lambda name: [
                _pooled(name, kda, "verify", _IN_PLACE, modules, window_kda(modules))
            ],
            "vllm/chunk_gdn": lambda name: [_pure(name, gdn, gdn_chunk, modules, chunk_gdn(modules))],
            "vllm/gdn_packed_decode": lambda name: [
                _pooled(name, gdn, "recurrent", gdn_decode, modules, packed_gdn(modules))
            ],
            "vllm/gdn_verify": lambda name: [_pooled(name, gdn, "verify", gdn_decode, modules, window_gdn(modules))],
        }
    )
    return Provider("vllm", kernels, modules.version, modules.source.tested, unavailable)


def _pure(name: str, kind: ModelKind, can: Capabilities, modules: KernelModules, forward: Forward) -> ProviderKernel:
    """A chunk kernel: final states are returned, the pool is the caller's."""
    call = checked(name, kind, can, guarded(modules, forward))
    expose = exposing(modules, _TAPS) if kind is ModelKind.KDA else None
    return ProviderKernel(kind, StateKernel(name, "chunk", _STORED, frozenset({"vllm"}), call), can, expose=expose)


def _pooled(
    name: str, kind: ModelKind, form: str, can: Capabilities, modules: KernelModules, call: PoolForward
) -> ProviderKernel:
    """A decode or verify kernel, which works on the pool."""
    inside: PoolForward = guarded(modules, call)
    forward = checked(name, kind, can, from_pool(inside, can))
    return ProviderKernel(kind, StateKernel(name, form, _DECODED, frozenset({"vllm"}), forward), can, inside)
