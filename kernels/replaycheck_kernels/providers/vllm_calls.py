"""How vLLM calls its kernels: one function a kernel, from the contract's inputs. See ``vllm.py`` for the sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from torch import Tensor

from ..contract import Forward, KdaInputs, KdaOutput, SnapshotRow
from ..recipe import Recipe
from .adapt import Packed, assemble, chunk_states, interior, pack, recorded
from .decode import Token, packed_decode, steps_before, token_by_token
from .provider import PoolForward, PoolResult
from .shim import KernelModules

KDA_OPS = "vllm.models.kimi_k3.nvidia.ops.third_party.kda"
GDN_OPS = "vllm.third_party.flash_linear_attention.ops"

Chunked = Callable[[Packed, Tensor], tuple[Tensor, Tensor]]
"""Packed inputs and initial states [R, HV, V, K] fp32 → o [1, N, HV, V], final states fp32."""

Windowed = Callable[[Packed, Tensor, Tensor], Tensor]
"""Packed inputs, pool, and the slot that each token's state goes to [R, tokens] int32 (0: nowhere) → o."""


def chunk_kda(modules: KernelModules) -> Forward:
    """Prefill from raw decay and raw beta."""
    module = modules.load(f"{KDA_OPS}.chunk")

    def kernel(x: Packed, initial: Tensor) -> tuple[Tensor, Tensor]:
        o, final = module.chunk_kda_with_fused_gate(
            q=x.q,
            k=x.k,
            v=x.v,
            raw_g=x.a,
            raw_beta=x.b,
            A_log=x.A_log,
            g_bias=x.dt_bias,
            initial_state=initial,
            output_final_state=True,
            lower_bound=x.bound,
            use_qk_l2norm_in_kernel=True,
            cu_seqlens=x.cu_seqlens,
        )
        return o, final

    return _chunk(module, kernel)


def chunk_gdn(modules: KernelModules) -> Forward:
    """Prefill: one kernel normalises q and k and activates decay and beta, then the chunk kernels run."""
    prepare = modules.load(f"{GDN_OPS}.fused_gdn_prefill_post_conv").fused_post_conv_prep
    module = modules.load(f"{GDN_OPS}.chunk")

    def kernel(x: Packed, initial: Tensor) -> tuple[Tensor, Tensor]:
        heads, key, value = x.k.shape[2], x.k.shape[3], x.v.shape[3]
        q, k, v, g, beta = prepare(x.mixed(), x.a[0], x.b[0], x.A_log, x.dt_bias, heads, key, value)
        o, final = module.chunk_gated_delta_rule(
            q=q[None],
            k=k[None],
            v=v[None],
            g=g[None],
            beta=beta[None],
            initial_state=initial,
            output_final_state=True,
            cu_seqlens=x.cu_seqlens,
            use_qk_l2norm_in_kernel=False,
        )
        return o, final

    return _chunk(module, kernel)


def _chunk(module: ModuleType, kernel: Chunked) -> Forward:
    """The contract's function; per-chunk states come from the inner call that makes them."""

    def forward(inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        inner = interior(rows)
        with recorded(module, "chunk_gated_delta_rule_fwd_h", bool(inner)) as returned:
            o, final = kernel(pack(inputs, recipe), initial.float().contiguous())
        taps = chunk_states(returned[0][0], inputs, inner) if returned else {}
        return assemble(o[0], final, rows, taps, inputs.v)

    return forward


def packed_kda(modules: KernelModules) -> PoolForward:
    """Decode of one token a sequence."""
    kernel = modules.load(f"{KDA_OPS}.fused_recurrent").fused_recurrent_kda_packed_decode

    def step(x: Packed, token: Token, pool: Tensor) -> None:
        batch, (heads, _, key) = token.b.shape[0], pool.shape[1:]
        kernel(
            mixed_qkv=token.mixed,
            raw_g=token.a.view(1, batch, heads, key),
            raw_beta=token.b[None],
            A_log=x.A_log,
            dt_bias=x.dt_bias,
            lower_bound=x.bound,
            initial_state=pool,
            state_indices=token.slots,
            out=token.out.transpose(0, 1),
        )

    return token_by_token(step)


def packed_gdn(modules: KernelModules) -> PoolForward:
    """Decode of one token a sequence."""
    kernel = modules.load(f"{GDN_OPS}.fused_recurrent").fused_recurrent_gated_delta_rule_packed_decode
    return packed_decode(kernel, bounded=False)


def window_kda(modules: KernelModules) -> PoolForward:
    """Verify of a window: the state stays in fp32 registers; positions with a slot are written to it."""
    kernel = modules.load(f"{KDA_OPS}.fused_recurrent").fused_recurrent_kda

    def run(x: Packed, pool: Tensor, indices: Tensor) -> Tensor:
        q, k, v = x.views()
        o, _ = kernel(
            q=q,
            k=k,
            v=v,
            out=torch.empty_like(x.v),
            raw_g=x.a,
            raw_beta=x.b,
            A_log=x.A_log,
            dt_bias=x.dt_bias,
            lower_bound=x.bound,
            initial_state=pool,
            cu_seqlens=x.cu_seqlens,
            ssm_state_indices=indices,
        )
        found: Tensor = o
        return found

    return _window(run)


def window_gdn(modules: KernelModules) -> PoolForward:
    """Verify of a window of Gated DeltaNet."""
    kernel = modules.load(f"{GDN_OPS}.fused_sigmoid_gating").fused_sigmoid_gating_delta_rule_update

    def run(x: Packed, pool: Tensor, indices: Tensor) -> Tensor:
        o, _ = kernel(
            A_log=x.A_log,
            a=x.a[0],
            b=x.b[0],
            dt_bias=x.dt_bias,
            q=x.q,
            k=x.k,
            v=x.v,
            scale=x.scale,
            initial_state=pool,
            inplace_final_state=True,
            cu_seqlens=x.cu_seqlens,
            ssm_state_indices=indices,
            use_qk_l2norm_in_kernel=True,
        )
        found: Tensor = o
        return found

    return _window(run)


def _window(run: Windowed) -> PoolForward:
    """A call on blocks of its own: one for the initial state, one for each position that is asked for, 0 for the others.

    The engine gives every position a block; here only taps and last positions get one, which saves memory (a state of
    four heads is 256 KiB) and changes no stored value.
    """

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        steps, lengths = steps_before(inputs, rows, recipe), inputs.lengths()
        wanted = {(row.sequence, step - 1) for row, step in zip(rows, steps, strict=True) if step}
        wanted |= {(r, 0) for r in range(len(lengths))} | {(r, length - 1) for r, length in enumerate(lengths)}
        block = {place: i for i, place in enumerate(sorted(wanted), start=1)}
        blocks = pool.new_zeros(len(block) + 1, *pool.shape[1:])
        indices = torch.zeros(len(lengths), max(lengths), dtype=torch.int32)
        for (sequence, position), i in block.items():
            indices[sequence, position] = i
        before = [pool[slot].clone() for slot in slots]
        for sequence, state in enumerate(before):
            blocks[block[sequence, 0]] = state
        o = run(pack(inputs, recipe), blocks, indices.to(pool.device))
        for sequence, slot in enumerate(slots):
            pool[slot] = blocks[block[sequence, lengths[sequence] - 1]]
        taps = {
            row: blocks[block[row.sequence, step - 1]] if step else before[row.sequence]
            for row, step in zip(rows, steps, strict=True)
        }
        return PoolResult(o[0], taps)

    return call
