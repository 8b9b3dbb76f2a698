"""What a call can't do without: the fewest bytes through device memory, and the fewest FLOP of the chunk form.

Bytes over the measured copy bandwidth and FLOP over the measured matmul rate are two times; no version runs much faster
than the larger one. N tokens of R sequences, H heads of q and k, HV value heads, key width K, value width V, C channels of
decay (K, or 1), s bytes of an activation, p bytes of a state's element.
"""

from __future__ import annotations

from dataclasses import dataclass

CHUNK = 64
FP32_BYTES = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of one call.

    Attributes:
        tokens: N. sequences: R. heads: H. value_heads: HV. key: K. value: V. channels: C.
        activation_bytes: s, 2 for bf16. state_bytes: p of the pool, 4 for fp32. snapshots: fp32 states written beside.
    """

    tokens: int
    sequences: int
    heads: int
    value_heads: int
    key: int
    value: int
    channels: int
    activation_bytes: int = 2
    state_bytes: int = FP32_BYTES
    snapshots: int = 0


def call_bytes(x: Shape) -> int:
    """Each input read once, each output written once.

    N·s·(2·H·K + HV·V + HV·C + HV) for q, k, v, the raw decay and beta; N·s·HV·V for o; 2·R·HV·V·K·p for the states, read
    and written; HV·V·K·4 a snapshot. Parameters and index tables are left out: they are under 0.1 % at these sizes.
    """
    token = 2 * x.heads * x.key + x.value_heads * (2 * x.value + x.channels + 1)
    state = x.value_heads * x.value * x.key
    moved = x.tokens * x.activation_bytes * token + 2 * x.sequences * state * x.state_bytes
    return moved + x.snapshots * state * FP32_BYTES


def chunk_flops(x: Shape) -> int:
    """Multiplications and additions of the chunk form's matrix products with chunks of B = 64 tokens.

    A token and value head needs, with B × B lower triangles counted as half of a square (the other half is zeros):
    B·K for each of k̂k̂ᵀ, q̂k̂ᵀ and the triangle's product that makes w; B·V for u and for the triangle on the new values;
    B²/3 for the inverse of a unit triangle (B³/3 a chunk); 2·K·V for each of w·S, q̂·S and k̂ᵀ·v.
    Together B·(3·K + 2·V) + B²/3 + 6·K·V. Activations, norms and decays are no matrix products and left out.
    """
    triangles = CHUNK * (3 * x.key + 2 * x.value) + CHUNK**2 // 3
    return x.tokens * x.value_heads * (triangles + 6 * x.key * x.value)


def seconds(amount: float, per_second: float) -> float:
    """Time of an amount at a measured rate."""
    return amount / per_second
