"""The calls: allocate what kernels hand to each other and launch them with the block sizes of (K, V, recipe)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import KdaInputs
from ..providers.adapt import on_device
from .diagonal import diagonal_blocks
from .operands import chunk_operands
from .recurrence import recurrence
from .states import state_pass
from .tables import Layout, Slots, Taps


@dataclass(frozen=True)
class Sizes:
    """Block sizes and warps. None of them may depend on the tokens or sequences of a call: see the package's docstring.

    Attributes:
        channels: key channels that the diagonal kernel holds at once; 16 rows of 64 fit one warp's registers.
        values: columns of the state that one program carries; 128 × 32 fp32 are 32 registers a thread.
        u_values: columns of U that the operand kernel makes at once.
        recurrent_values: columns of the state in the recurrent kernel.
    """

    channels: int = 64
    values: int = 32
    u_values: int = 64
    recurrent_values: int = 32
    diagonal_warps: int = 1
    operand_warps: int = 8
    operand_registers: int | None = None
    state_warps: int = 4
    state_stages: int = 2
    recurrent_warps: int = 4


FAST = Sizes()
EXACT = Sizes(values=16, u_values=16, operand_warps=8, state_warps=8, state_stages=1)
"""fp32 products are made of scalar operations, whole operands in registers."""

#: Fusing a·b + c would let variants of a kernel differ in bits.
_UNFUSED = {"enable_fp_fusion": False}


def chunk_forward(
    x: KdaInputs, layout: Layout, pool: Tensor, slots: Slots, taps: Taps, bf16: bool, sizes: Sizes | None = None
) -> Tensor:
    """The chunk form, in place.

    Args:
        x: contiguous tensors in the activation dtype (bf16, or fp32 where ``bf16`` is false); A_log and dt_bias fp32.
        pool: [slots, HV, V, K] contiguous; fp32, bf16 or fp16.
        bf16: operands of products are bf16.

    Returns:
        o: [N, HV, V] in the activation dtype.
    """
    sizes = sizes or (FAST if bf16 else EXACT)
    (tokens, H, K), (HV, V), GW = x.k.shape, x.v.shape[1:], x.a.shape[2]
    chunks, kind = layout.chunks.shape[0], x.v.dtype
    empty = x.v.new_empty
    qk, w = empty((tokens, HV, 64), dtype=kind), empty((tokens, HV, K), dtype=kind)
    u, k_decayed, q_decayed = empty((tokens, HV, V)), torch.empty_like(w), torch.empty_like(w)
    inverse = empty((tokens, HV, 16), dtype=torch.float32)
    decay = empty((chunks, HV, GW), dtype=torch.float32)
    o = torch.empty_like(x.v)
    bound, scale = x.lower_bound or 0.0, K**-0.5
    heads = {"H": H, "HV": HV, "K": K, "GW": GW, "BOUNDED": x.lower_bound is not None, "BF16": bf16}
    raw = (x.a, x.b, x.A_log, x.dt_bias, layout.chunks)
    BK = min(K, sizes.channels)
    heads |= {"BK": BK, "BG": BK if GW > 1 else 1}
    with on_device(x.v):
        diagonal_blocks[(4 * chunks, HV)](
            x.q, x.k, *raw, qk, inverse, bound, scale,
            **heads, num_warps=sizes.diagonal_warps, **_UNFUSED,
        )  # fmt: skip
        chunk_operands[(chunks, HV)](
            x.q, x.k, x.v, *raw, inverse, qk, w, u, k_decayed, q_decayed, decay, bound, scale,
            **heads, V=V, BV=min(sizes.u_values, _power(V)), num_warps=sizes.operand_warps,
            num_stages=1, maxnreg=sizes.operand_registers, **_UNFUSED,
        )  # fmt: skip
        BV = block(V, sizes.values)
        state_pass[(V // BV, HV, layout.sequences)](
            qk, w, u, k_decayed, q_decayed, decay, pool, o, taps.states,
            layout.offsets, layout.firsts, taps.rows, slots.sources, slots.destinations, slots.seeds,
            HV=HV, K=K, V=V, GW=GW, BV=BV, STOCHASTIC=slots.stochastic, BF16=bf16,
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
            STOCHASTIC=slots.stochastic, num_warps=sizes.recurrent_warps, **_UNFUSED,
        )  # fmt: skip
    return o


def block(width: int, most: int) -> int:
    """The largest power of two that divides ``width``, at most ``most``."""
    return min(width & -width, most)


def _power(width: int) -> int:
    return 1 << (width - 1).bit_length()
