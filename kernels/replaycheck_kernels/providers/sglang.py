"""SGLang's Triton kernels: chunk prefill with a tracked snapshot, packed decode, and multi-token verify.

Read in SGLang 0.5.23 (``sglang/kernels/ops/attention``): ``fla/kda.py``, ``fla/chunk.py``, ``fla/chunk_delta_h.py``,
``fla/fused_recurrent.py``, ``linear/fused_sigmoid_gating_recurrent.py``, ``linear/fused_gdn_gating.py``, and how
``srt/layers/attention/linear/kernels/{kda,gdn}_triton.py`` call them. The chunk kernel writes final states into the pool
in place; ``track_state`` [R, HV, V, K] fp32 gets the accumulator at one chunk of each sequence; h has all chunks' states
in the activation dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from ..contract import KdaInputs, SnapshotSource, StateKernel
from .adapt import CHUNK, from_pool, guarded
from .collect import collect
from .exposed import NORMS, Tap, exposing
from .platform import capability, dependent_launch, is_cuda, no, torch_release
from .provider import Capabilities, Decay, ModelKind, PoolForward, Provider, ProviderKernel, checked
from .sglang_calls import OPS, chunk_gdn, chunk_kda, packed, verify
from .sglang_helion import WANTS, HelionKernel
from .sglang_helion import kernels as helion
from .shim import KernelModules, Source


def _device_sm() -> int:
    major, minor = capability()
    return 10 * major + minor


SOURCE = Source(
    provider="sglang",
    package="sglang",
    distribution="sglang",
    tested=("0.5.23",),
    bare=(f"{OPS}.fla", f"{OPS}.linear"),
    stubs={
        "sglang.srt.utils": {
            "is_cuda": is_cuda,
            "is_hip": no,
            "is_npu": no,
            "is_cpu": no,
            "is_gfx95_supported": no,
            "is_sm90_supported": lambda: capability()[0] == 9,
            "get_device_sm": _device_sm,
            "cdiv": lambda a, b: -(-a // b),
            "next_power_of_2": lambda n: 1 if n < 1 else 1 << (n - 1).bit_length(),
            "cpu_has_amx_support": no,
            "device_context": torch.cuda.device,
        },
        "sglang.srt.utils.common": {"torch_release": torch_release()},
        "sglang.srt.batch_invariant_ops": {"is_batch_invariant_mode_enabled": no},
        "sglang.kernels.jit.utils": {
            "is_arch_support_pdl": dependent_launch,
            "get_jit_cuda_arch": capability,
        },
        # From batch 8 on SGLang decodes with a CUDA kernel that it compiles when first used; here Triton's serves all.
        f"{OPS}.kda_packed_decode": {"covered": no},
    },
    wants=WANTS,
)

_ALL = frozenset(SnapshotSource)
_DECODED = frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL})
_KDA = Capabilities(("sglang",))
_GDN = Capabilities(("sglang-gdn",), decays=frozenset({Decay.SOFTPLUS}), grouped_values=True)
_PACKED_NOTE = (
    "Triton at every batch size; SGLang itself takes a CUDA kernel from 8 requests on (fp32 pool, K = V = 128)"
)

_STATES = (("h", "v_new"),)
_TAPS = {
    ModelKind.KDA: (
        Tap(f"{OPS}.fla.kda", "l2norm_fwd", NORMS),
        Tap(f"{OPS}.fla.kda", "kda_gate_chunk_cumsum", (("G", "beta"),)),
        Tap(f"{OPS}.fla.kda", "chunk_kda_fwd_intra", (("w", "u", None, "k_decayed", "qk", "inverse"),)),
        Tap(f"{OPS}.fla.kda", "chunk_gated_delta_rule_fwd_h", _STATES),
    ),
    ModelKind.GDN: (
        Tap(f"{OPS}.fla.chunk", "l2norm_fwd", NORMS),
        Tap(f"{OPS}.fla.chunk", "chunk_local_cumsum", (("G",),)),
        Tap(f"{OPS}.fla.chunk", "chunk_gated_delta_rule_fwd_intra", (("w", "u", "inverse"),)),
        Tap(f"{OPS}.fla.chunk", "chunk_gated_delta_rule_fwd_h", _STATES),
    ),
}

_NOT_ADAPTED = {
    "sglang/cutedsl_kda": "no adapter: decode in CuTe DSL, which needs pip install 'nvidia-cutlass-dsl[cu13]==4.8.0'",
    "sglang/kda_decode_mtp": "no adapter: verify fused with the convolution, in CuTe DSL",
    "sglang/kda_blackwell, kda_nvidia_prefill, kda_ptx_prefill": "no adapter: they need compute capability 10.x",
    "sglang/kda_replayssm": "no adapter: a ring of raw inputs isn't in the contract of a state kernel",
}
"""Further kernels of KDA in the package."""


def provider(path: Path | None = None) -> Provider:
    """Load the kernels from the installed package or from ``path``.

    Raises:
        MissingPackage: sglang's files or Triton aren't there.
    """
    modules = KernelModules(SOURCE, path)
    kda, gdn = ModelKind.KDA, ModelKind.GDN
    grouped = replace(_KDA, grouped_values=True)
    decoded = replace(grouped, note=_PACKED_NOTE)
    tracked = replace(_KDA, claims=("sglang", "sglang-small-grid"), snapshots_a_call=1)
    # Verify keeps beta in fp32, where packed decode and the gating kernel round it to bf16.
    verified = replace(_GDN, claims=("sglang", "sglang-gdn"))
    sources = _ALL - {SnapshotSource.ACCUMULATOR}
    plan: dict[str, tuple[str, ModelKind, Capabilities, frozenset[SnapshotSource], Callable[[], PoolForward]]] = {
        "sglang/chunk_kda": ("chunk", kda, tracked, _ALL, lambda: chunk_kda(modules)),
        "sglang/kda_packed_decode": ("recurrent", kda, decoded, _DECODED, lambda: packed(modules, "kda")),
        "sglang/kda_verify": ("verify", kda, grouped, _DECODED, lambda: verify(modules, kda)),
        "sglang/chunk_gdn": ("chunk", gdn, _GDN, sources, lambda: chunk_gdn(modules)),
        "sglang/gdn_packed_decode": ("recurrent", gdn, _GDN, _DECODED, lambda: packed(modules, "gated_delta_rule")),
        "sglang/gdn_verify": ("verify", gdn, verified, _DECODED, lambda: verify(modules, gdn)),
    }

    def load(name: str) -> list[ProviderKernel]:
        if name in generated:
            return [_helion(name, generated[name], modules)]
        form, kind, can, allowed, build = plan[name]
        call: PoolForward = guarded(modules, build())
        forward = checked(name, kind, can, from_pool(call, can))
        choose = _grid if can is tracked else None
        expose = exposing(modules, _TAPS[kind]) if form == "chunk" else None
        kernel = StateKernel(name, form, allowed, frozenset(can.claims), forward)
        return [ProviderKernel(kind, kernel, can, call, choose, expose)]

    generated = helion()
    kernels, unavailable = collect(dict.fromkeys([*plan, *generated], load))
    return Provider("sglang", kernels, modules.version, SOURCE.tested, {**unavailable, **_NOT_ADAPTED})


def _helion(name: str, found: HelionKernel, modules: KernelModules) -> ProviderKernel:
    can, call = found.can, guarded(modules, found.build(modules))
    forward = checked(name, ModelKind.KDA, can, from_pool(call, can))
    kernel = StateKernel(name, found.form, found.sources, frozenset(can.claims), forward)
    expose = exposing(modules, found.taps) if found.taps else None
    return ProviderKernel(ModelKind.KDA, kernel, can, call, _one_token if found.taps else None, expose)


def _one_token(inputs: KdaInputs) -> str:
    """Helion's prefill gives a call of one token to Triton's."""
    return "sglang-helion" if inputs.offsets[-1] > 1 else _grid(inputs)


def _grid(inputs: KdaInputs) -> str:
    """``chunk_kda`` fuses its diagonal where chunks × heads ≤ 256 (``fla/kda.py``, ``_small_grid``)."""
    chunks = sum(-(-length // CHUNK) for length in inputs.lengths())
    return "sglang-small-grid" if chunks * inputs.k.shape[1] <= 256 else "sglang"
