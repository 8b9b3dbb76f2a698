"""How SGLang calls its kernels: one function a kernel, from the contract's inputs. See ``sglang.py`` for the sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..contract import KdaInputs, SnapshotRow
from ..recipe import Recipe
from .adapt import Packed, accumulators, chunk_states, pack
from .decode import packed_decode, steps_before
from .provider import ModelKind, PoolForward, PoolResult
from .shim import KernelModules

OPS = "sglang.kernels.ops.attention"


def _indices(slots: Sequence[int], pool: Tensor) -> Tensor:
    return torch.tensor(list(slots), dtype=torch.int32, device=pool.device)


def chunk_kda(modules: KernelModules, file: str = "fla.kda") -> PoolForward:
    """Prefill; ``file``: the one of several with a function of this name and contract."""
    kernel = modules.load(f"{OPS}.{file}").chunk_kda

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        x, wanted = pack(inputs, recipe), accumulators(rows)
        track, index = _track(inputs, pool, wanted) if wanted else (None, None)
        o, h = kernel(
            q=x.q,
            k=x.k,
            v=x.v,
            g=x.a,
            beta=x.b,
            scale=x.scale,
            initial_state=pool,
            initial_state_indices=_indices(slots, pool),
            use_qk_l2norm_in_kernel=True,
            cu_seqlens=x.cu_seqlens,
            A_log=x.A_log,
            dt_bias=x.dt_bias,
            lower_bound=x.bound,
            output_intermediate_states=True,
            track_state=track,
            track_chunk_idx=index,
            beta_is_raw=True,
        )
        taps = chunk_states(h, inputs, rows)
        return PoolResult(o[0], taps | ({row: track[row.sequence] for row in wanted} if track is not None else {}))

    return call


def _track(inputs: KdaInputs, pool: Tensor, rows: Sequence[SnapshotRow]) -> tuple[Tensor, Tensor]:
    """The fp32 snapshot buffer, NaN until the kernel writes it, and the chunk of each sequence (−1: none)."""
    chunks = torch.full((inputs.sequences,), -1, dtype=torch.int32)
    for row in rows:
        chunks[row.sequence] = row.chunk
    buffer = pool.new_full((inputs.sequences, *pool.shape[1:]), torch.nan, dtype=torch.float32)
    return buffer, chunks.to(pool.device)


def packed(modules: KernelModules, rule: str) -> PoolForward:
    """Packed decode of KDA, or of GDN (which knows no lower bound)."""
    kernel = getattr(modules.load(f"{OPS}.fla.fused_recurrent"), f"fused_recurrent_{rule}_packed_decode")
    return packed_decode(kernel, bounded=rule == "kda")


Windowed = Callable[[Packed, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Packed inputs, pool, slots [R], buffer [R, steps, HV, V, K], its row of each sequence [R] → o [1, N, HV, V]."""


def verify(modules: KernelModules, kind: ModelKind) -> PoolForward:
    """All tokens of each window in one call."""
    kernel = modules.load(f"{OPS}.linear.fused_sigmoid_gating_recurrent").fused_sigmoid_gating_delta_rule_update

    def run(x: Packed, pool: Tensor, slots: Tensor, states: Tensor, rows: Tensor) -> Tensor:
        o: Tensor = kernel(
            A_log=x.A_log,
            a=x.a.flatten(2),
            dt_bias=x.dt_bias,
            softplus_beta=1.0,
            softplus_threshold=20.0,
            q=x.q,
            k=x.k,
            v=x.v,
            b=x.b,
            initial_state_source=pool,
            initial_state_indices=slots,
            scale=x.scale,
            use_qk_l2norm_in_kernel=True,
            cu_seqlens=x.cu_seqlens,
            is_kda=kind is ModelKind.KDA,
            lower_bound=x.bound,
            disable_state_update=True,
            intermediate_states_buffer=states,
            intermediate_state_indices=rows,
            cache_steps=states.shape[1],
        )
        return o

    return window(run)


def window(run: Windowed) -> PoolForward:
    """A call that leaves the pool alone and writes the state after each token to a buffer in the pool's dtype.

    The last one of each sequence is stored in its slot afterwards, as a commit of a fully accepted window does.
    """

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        lengths = inputs.lengths()
        states = pool.new_full((inputs.sequences, max(lengths), *pool.shape[1:]), torch.nan)
        before = [pool[slot].clone() for slot in slots]
        places = _indices(slots, pool), _indices(range(inputs.sequences), pool)
        o = run(pack(inputs, recipe), pool, places[0], states, places[1])
        taps = {
            row: states[row.sequence, step - 1] if step else before[row.sequence]
            for row, step in zip(rows, steps_before(inputs, rows, recipe), strict=True)
        }
        for slot, length, after in zip(slots, lengths, states, strict=True):
            pool[slot] = after[length - 1]
        return PoolResult(o[0], taps)

    return call


def chunk_gdn(modules: KernelModules) -> PoolForward:
    """As SGLang's extend: decay and beta from its gating kernel, then the chunk kernel."""
    gating = modules.load(f"{OPS}.linear.fused_gdn_gating").fused_gdn_gating
    kernel = modules.load(f"{OPS}.fla.chunk").chunk_gated_delta_rule

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        x = pack(inputs, recipe)
        g, beta = gating(x.A_log, x.a[0], x.b[0], x.dt_bias)
        o, _, h = kernel(
            q=x.q,
            k=x.k,
            v=x.v,
            g=g,
            beta=beta,
            scale=x.scale,
            initial_state=pool,
            initial_state_indices=_indices(slots, pool),
            cu_seqlens=x.cu_seqlens,
            use_qk_l2norm_in_kernel=True,
        )
        return PoolResult(o[0], chunk_states(h, inputs, rows))

    return call
