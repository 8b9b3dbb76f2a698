"""flash-linear-attention (fla-core): the chunk and recurrent operators of KDA and Gated DeltaNet.

Read in fla-core 0.6.0: ``fla/ops/kda/chunk.py``, ``kda/fused_recurrent.py`` and the same two of ``gated_delta_rule``.
States are [K, V] by default and [V, K] with ``state_v_first``; initial and final states are fp32. There is no interior
fp32 snapshot. The per-chunk states are in the activation dtype: KDA returns them in inference mode, GDN keeps them to
itself, so there they are taken where the inner function returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..contract import Forward, KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from ..recipe import Recipe
from .adapt import Packed, assemble, chunk_states, guarded, interior, pack, recorded
from .collect import collect
from .exposed import NORMS, Tap, exposing
from .provider import Capabilities, Decay, ModelKind, Provider, ProviderKernel, checked
from .shim import KernelModules, Source

SOURCE = Source(
    provider="fla",
    package="fla",
    distribution="fla-core",
    tested=("0.6.0",),
    # Their __init__ import every operator and every module: 5 to 12 s.
    bare=("fla.ops", "fla.modules"),
)

_KDA = Capabilities(("fla",), grouped_values=True)
_GDN = replace(_KDA, decays=frozenset({Decay.SOFTPLUS}))

_INTRA = "chunk_gated_delta_rule_fwd_intra"
_STATES = "chunk_gated_delta_rule_fwd_h"
_TAPS = {
    ModelKind.KDA: (
        Tap("fla.ops.kda.chunk", "l2norm_fwd", NORMS),
        Tap("fla.ops.kda.chunk", "fused_beta_sigmoid", (("beta",),)),
        Tap("fla.ops.kda.chunk_fwd", "kda_gate_chunk_cumsum", (("G",),)),
        Tap("fla.ops.kda.chunk_fwd", "chunk_kda_fwd_intra", (("w", "u", None, "k_decayed", "qk", "inverse"),)),
        Tap("fla.ops.kda.chunk_fwd", _STATES, (("h", "v_new"),)),
    ),
    ModelKind.GDN: (
        Tap("fla.ops.gated_delta_rule.chunk", "l2norm_fwd", NORMS),
        Tap("fla.ops.gated_delta_rule.chunk", "fused_beta_sigmoid", (("beta",),)),
        Tap("fla.ops.gated_delta_rule.chunk", "gdn_gate_chunk_cumsum", (("G",),)),
        Tap("fla.ops.gated_delta_rule.chunk", _INTRA, (("w", "u", "inverse"),)),
        Tap("fla.ops.gated_delta_rule.chunk", _STATES, (("h", "v_new"),)),
    ),
}

Call = Callable[[Packed, Tensor, bool], tuple[Tensor, Tensor, Tensor | None]]
"""Packed inputs, initial states in the kernel's layout, whether per-chunk states are wanted → o, final, h."""


def provider(path: Path | None = None) -> Provider:
    """Load the kernels from the installed package or from ``path``.

    Raises:
        MissingPackage: fla or Triton isn't there.
    """
    modules = KernelModules(SOURCE, path)
    kernels, unavailable = collect(
        {
            "fla/chunk_kda": lambda name: _both_layouts(name, modules, "chunk", ModelKind.KDA, _chunk_kda(modules)),
            "fla/fused_recurrent_kda": lambda name: _both_layouts(
                name, modules, "recurrent", ModelKind.KDA, _recurrent_kda(modules)
            ),
            "fla/chunk_gated_delta_rule": lambda name: _both_layouts(
                name, modules, "chunk", ModelKind.GDN, _chunk_gdn(modules)
            ),
            "fla/fused_recurrent_gated_delta_rule": lambda name: _both_layouts(
                name, modules, "recurrent", ModelKind.GDN, _recurrent_gdn(modules)
            ),
        }
    )
    return Provider("fla", kernels, modules.version, SOURCE.tested, unavailable)


def _both_layouts(
    name: str, modules: KernelModules, form: str, kind: ModelKind, call: Callable[[bool], Call]
) -> list[ProviderKernel]:
    """The kernel with [V, K] states, which fla's own layers ask for, and with [K, V] states."""
    can = _KDA if kind is ModelKind.KDA else _GDN
    sources = {SnapshotSource.FINAL} | ({SnapshotSource.CHUNK_STATE} if form == "chunk" else set())
    found = []
    for variant, allowed, v_first in ((name, can, True), (f"{name}[K,V]", replace(can, layout="K,V"), False)):
        forward = checked(variant, kind, allowed, guarded(modules, _forward(call(v_first), v_first)))
        kernel = StateKernel(variant, form, frozenset(sources), frozenset({"fla"}), forward)
        expose = exposing(modules, _TAPS[kind], turned=not v_first) if form == "chunk" else None
        found.append(ProviderKernel(kind, kernel, allowed, expose=expose))
    return found


def _forward(call: Call, v_first: bool) -> Forward:
    """The contract's function from a call in either layout."""

    def turned(state: Tensor) -> Tensor:
        return state if v_first else state.transpose(-1, -2).contiguous()

    def forward(inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        inner = interior(rows)
        o, final, h = call(pack(inputs, recipe), turned(initial.float()), bool(inner))
        taps = chunk_states(turned(h), inputs, inner) if h is not None else {}
        return assemble(o[0], turned(final), rows, taps, inputs.v)

    return forward


def _chunk_kda(modules: KernelModules) -> Callable[[bool], Call]:
    kernel = modules.load("fla.ops.kda.chunk").chunk_kda

    def build(v_first: bool) -> Call:
        def call(x: Packed, initial: Tensor, states: bool) -> tuple[Tensor, Tensor, Tensor | None]:
            # fla returns per-chunk states in inference mode only; its tensors are copied out of that mode.
            with torch.inference_mode(states):
                found = kernel(
                    **_common(x, initial, v_first),
                    dt_bias=x.dt_bias,
                    lower_bound=x.bound,
                    safe_gate=x.bound is not None,
                    return_intermediate_states=states,
                )
            return (found[0].clone(), found[1].clone(), found[2].clone()) if states else (*found, None)

        return call

    return build


def _recurrent_kda(modules: KernelModules) -> Callable[[bool], Call]:
    kernel = modules.load("fla.ops.kda.fused_recurrent").fused_recurrent_kda
    return lambda v_first: (
        lambda x, initial, states: (
            *kernel(**_common(x, initial, v_first), dt_bias=x.dt_bias, lower_bound=x.bound),
            None,
        )
    )


def _chunk_gdn(modules: KernelModules) -> Callable[[bool], Call]:
    module = modules.load("fla.ops.gated_delta_rule.chunk")

    def build(v_first: bool) -> Call:
        def call(x: Packed, initial: Tensor, states: bool) -> tuple[Tensor, Tensor, Tensor | None]:
            with recorded(module, "chunk_gated_delta_rule_fwd_h", states) as returned:
                o, final = module.chunk_gated_delta_rule(**_common(x, initial, v_first), dt_bias=x.dt_bias)
            return o, final, returned[0][0] if returned else None

        return call

    return build


def _recurrent_gdn(modules: KernelModules) -> Callable[[bool], Call]:
    kernel = modules.load("fla.ops.gated_delta_rule.fused_recurrent").fused_recurrent_gated_delta_rule
    return lambda v_first: lambda x, initial, states: (*kernel(**_common(x, initial, v_first), dt_bias=x.dt_bias), None)


def _common(x: Packed, initial: Tensor, v_first: bool) -> dict[str, Any]:
    """Arguments of all four operators: norm, decay and beta are activated inside, as fla's layers ask for."""
    return {
        "q": x.q,
        "k": x.k,
        "v": x.v,
        "g": x.a,
        "beta": x.b,
        "scale": x.scale,
        "initial_state": initial,
        "output_final_state": True,
        "use_qk_l2norm_in_kernel": True,
        "use_gate_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
        "A_log": x.A_log,
        "state_v_first": v_first,
        "cu_seqlens": x.cu_seqlens.long(),
    }
