"""The calls: allocate what kernels hand to each other and launch them with the block sizes of (K, V, recipe)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import KdaInputs
from ..providers.adapt import on_device
from .diagonal import diagonal_blocks
from .heads import head_operands
from .operands import chunk_operands
from .recurrence import recurrence
from .scores import chunk_scores
from .states import state_pass
from .tables import Layout, Slots, Taps


@dataclass(frozen=True)
class Sizes:
    """Block sizes and warps. None of them may depend on the tokens or sequences of a call: see the package's docstring.

    Attributes:
        channels, score_channels, operand_channels: key channels that a program of a kernel holds at once.
        registers, score_registers, operand_registers, recurrent_registers: of a thread, at most;
            128 let a multiprocessor hold 16 warps.
        values: columns of the state that one program carries; 128 × 32 fp32 are 32 registers a thread.
        u_values: columns of U that the operand kernel makes at once.
        head_warps: of the kernel for one decay a head on the products; not tuned.
        recurrent_values: columns of the state in the recurrent kernel.

    Measured on an H200 (K = V = 128, H = 32, 8,192 tokens, bf16, µs a kernel), what was tried beside the defaults:
    diagonal blocks 466 (at most 128 registers: 573; 168: 461), scores 247 (8 warps and 128 registers: 356; 64 channels:
    304), operands 172 (128 registers: 210), states 238 (2 stages: 302; 16 values: 572; 64 values, 8 warps: 436). Decode of
    64 sequences, share of the copy bandwidth: 0.87 (no limit of registers: 0.81; 16 values and 128 registers: 0.85).
    """

    channels: int = 32
    registers: int | None = None
    score_channels: int = 32
    score_warps: int = 4
    score_registers: int | None = None
    operand_channels: int = 64
    u_values: int = 64
    operand_warps: int = 4
    operand_registers: int | None = 168
    head_warps: int = 8
    values: int = 32
    state_warps: int = 4
    state_stages: int = 3
    recurrent_values: int = 8
    recurrent_warps: int = 1
    recurrent_registers: int | None = 96


FAST = Sizes()
EXACT = Sizes(
    channels=32, registers=None, score_registers=None, operand_channels=32, u_values=16, operand_warps=8,
    operand_registers=None, head_warps=8, values=16, state_warps=8, state_stages=1, recurrent_registers=None,
)  # fmt: skip
"""fp32 products are made of scalar operations, whole operands in registers."""

#: Fusing a·b + c would let variants of a kernel differ in bits. Kernels that read no pool have no variants.
_UNFUSED = {"enable_fp_fusion": False}


@dataclass(frozen=True)
class Operands:
    """What the pass over the states reads; the decays [B, HV, K] are fp32, the rest is in the activation dtype."""

    qk: Tensor  # [N, HV, 64]
    w: Tensor  # [N, HV, K]
    u: Tensor  # [N, HV, V]
    k_decayed: Tensor  # [N, HV, K]
    q_decayed: Tensor  # [N, HV, K]
    decay: Tensor
    growth: Tensor | None = None  # [N, HV] fp32, where decays multiply the products
    remaining: Tensor | None = None


def operands(x: KdaInputs, layout: Layout, bf16: bool, sizes: Sizes, scale: float) -> Operands:
    """Three kernels, all chunks at once. The second and third write over what they have read of q_decayed and w."""
    (tokens, H, K), (HV, V), GW = x.k.shape, x.v.shape[1:], x.a.shape[2]
    chunks = layout.chunks.shape[0]
    qk, w, u = (x.v.new_empty((tokens, HV, width)) for width in (64, K, V))
    k_decayed, q_decayed = torch.empty_like(w), torch.empty_like(w)
    single = {"dtype": torch.float32, "device": x.v.device}
    inverse, kk, local = (torch.empty((tokens, HV, width), **single) for width in (16, 64, K))
    decay = torch.empty((chunks, HV, K), **single)
    common = {"HV": HV, "K": K, "BF16": bf16, "num_stages": 1}
    diagonal_blocks[(4 * chunks, HV)](
        x.q, x.k, x.a, x.b, x.A_log, x.dt_bias, layout.chunks, qk, inverse, q_decayed, w, local,
        x.lower_bound or 0.0, scale, **common, H=H, GW=GW, BK=min(K, sizes.channels),
        BOUNDED=x.lower_bound is not None, num_warps=1, maxnreg=sizes.registers,
    )  # fmt: skip
    chunk_scores[(chunks, HV)](
        x.b, local, layout.chunks, qk, kk, w, k_decayed, q_decayed, decay, scale, **common,
        BK=min(K, sizes.score_channels), num_warps=sizes.score_warps, maxnreg=sizes.score_registers,
    )  # fmt: skip
    chunk_operands[(chunks, HV)](
        x.v, x.b, layout.chunks, kk, inverse, w, u, **common, V=V, BK=min(K, sizes.operand_channels),
        BV=min(sizes.u_values, _power(V)), num_warps=sizes.operand_warps, maxnreg=sizes.operand_registers,
    )  # fmt: skip
    return Operands(qk, w, u, k_decayed, q_decayed, decay)


def operands_by_head(x: KdaInputs, layout: Layout, bf16: bool, sizes: Sizes) -> Operands:
    """One kernel, all chunks at once: one decay a head, on the products. q and k are normalised and not decayed."""
    (tokens, H, K), (HV, V) = x.k.shape, x.v.shape[1:]
    chunks = layout.chunks.shape[0]
    qk, w, u, k_unit, q_unit = (x.v.new_empty((tokens, HV, width)) for width in (64, K, V, K, K))
    single = {"dtype": torch.float32, "device": x.v.device}
    growth, remaining = (torch.empty((tokens, HV), **single) for _ in range(2))
    decay = torch.empty((chunks, HV, K), **single)
    head_operands[(chunks, HV)](
        x.q, x.k, x.v, x.a, x.b, x.A_log, x.dt_bias, layout.chunks, qk, w, u, k_unit, q_unit, growth, remaining, decay,
        x.lower_bound or 0.0, H=H, HV=HV, K=K, V=V, BK=min(K, sizes.operand_channels),
        BV=min(sizes.u_values, _power(V)), BOUNDED=x.lower_bound is not None, BF16=bf16,
        num_warps=sizes.head_warps, num_stages=1,
    )  # fmt: skip
    return Operands(qk, w, u, k_unit, q_unit, decay, growth, remaining)


def chunk_forward(
    x: KdaInputs, layout: Layout, pool: Tensor, slots: Slots, taps: Taps, bf16: bool, sizes: Sizes | None = None,
    scale: float | None = None, on_products: bool = False,
) -> Tensor:  # fmt: skip
    """The chunk form, in place.

    Args:
        x: contiguous tensors in the activation dtype (bf16, or fp32 where ``bf16`` is false); A_log and dt_bias fp32.
        pool: [slots, HV, V, K] contiguous; fp32, bf16 or fp16.
        bf16: operands of products are bf16.
        scale: of q; K^-½ if not given.
        on_products: decays multiply finished products; x has one a head.

    Returns:
        o: [N, HV, V] in the activation dtype.
    """
    sizes = sizes or (FAST if bf16 else EXACT)
    (HV, V), K, o = x.v.shape[1:], x.k.shape[2], torch.empty_like(x.v)
    BV = block(V, sizes.values)
    with on_device(x.v):
        scale = K**-0.5 if scale is None else scale
        made = operands_by_head(x, layout, bf16, sizes) if on_products else operands(x, layout, bf16, sizes, scale)
        state_pass[(V // BV, HV, layout.sequences)](
            made.qk, made.w, made.u, made.k_decayed, made.q_decayed, made.decay, made.growth, made.remaining,
            pool, o, taps.states, layout.offsets, layout.firsts, taps.rows, slots.sources, slots.destinations,
            slots.seeds, scale, HV=HV, K=K, V=V, BV=BV, STOCHASTIC=slots.stochastic, BF16=bf16, PRODUCTS=on_products,
            num_warps=sizes.state_warps, num_stages=sizes.state_stages, **_UNFUSED,
        )  # fmt: skip
    return o


def recurrent_forward(
    x: KdaInputs, layout: Layout, pool: Tensor, slots: Slots, taps: Taps, steps: Tensor, beta_bf16: bool,
    sizes: Sizes = FAST,
) -> Tensor:  # fmt: skip
    """The recurrent form, in place.

    Args:
        x, pool: as in ``chunk_forward``.
        steps: [N] slot for the state after each token, −1 for none.
        beta_bf16: beta is rounded to bf16.

    Returns:
        o: [N, HV, V] in the activation dtype.
    """
    (H, K), (HV, V), GW = x.k.shape[1:], x.v.shape[1:], x.a.shape[2]
    o, BV = torch.empty_like(x.v), block(V, sizes.recurrent_values)
    with on_device(x.v):
        recurrence[(V // BV, HV, layout.sequences)](
            x.q, x.k, x.v, x.a, x.b, x.A_log, x.dt_bias, pool, o, taps.states,
            layout.offsets, taps.rows, steps, slots.sources, slots.destinations, slots.seeds,
            x.lower_bound or 0.0, K**-0.5,
            H=H, HV=HV, K=K, V=V, GW=GW, BV=BV, BOUNDED=x.lower_bound is not None, BETA_BF16=beta_bf16,
            STOCHASTIC=slots.stochastic, num_warps=sizes.recurrent_warps,
            maxnreg=sizes.recurrent_registers, **_UNFUSED,
        )  # fmt: skip
    return o


def block(width: int, most: int) -> int:
    """The largest power of two that divides ``width``, at most ``most``."""
    return min(width & -width, most)


def _power(width: int) -> int:
    return 1 << (width - 1).bit_length()
