"""A recipe: how a KDA kernel computes, as data. Each field is a rounding point or a structural choice.

Source of the rounding points and of the presets: the rounding map of the SGLang 0.5.23 Triton kernels (the numbers in the
comments are its rows) and the structural choices that depend on the launch. ``exact`` rounds nowhere and is the form for
cross-checks; ``oracle`` is float64 throughout.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from .precision import Precision, Rounding

FP32, FP64, TF32, BF16 = Precision.FP32, Precision.FP64, Precision.TF32, Precision.BF16


@dataclass(frozen=True)
class Recipe:
    """Rounding points and structure of the chunk and the recurrent form."""

    name: str

    # Around the kernel
    activation: Precision = FP32  # linear outputs, residual stream, norms
    conv_out: Precision = FP32  # (1) short convolution after SiLU
    logits: Precision = FP32
    """bf16 logits near 10 have steps of 0.06 nat, which would hide what is measured; engines offer an fp32 head, too."""

    # Chunk form
    qk_norm: Precision = FP32  # (2) normalised q and k as stored for the chunk kernel
    decay_cumsum: Precision = FP32  # (3) cumulative log decay
    beta: Precision = FP32  # (4) beta after the sigmoid
    intra_operand: Precision = FP32  # (5) decayed q and k of off-diagonal blocks
    diagonal_operand: Precision = FP32  # (7) the same for diagonal blocks relative to a reference
    qk_matrix: Precision = FP32  # (8) Aqk as stored
    kk_matrix: Precision = FP32  # (9) Akk, scratch before the inverse
    inverse_merge: Precision = FP32  # (10) operands of the block merges of the inverse
    inverse: Precision = FP32  # (10) the inverse as stored
    beta_v: Precision = FP32  # (11) beta·v
    u: Precision = FP32  # (11) U as stored
    beta_k: Precision = FP32  # (12) beta·k·2^G
    w: Precision = FP32  # (12) W as stored
    k_decayed: Precision = FP32  # (12) Kg as stored
    state_operand: Precision = FP32  # (13) the state as an operand of both products
    v_new: Precision = FP32  # (14) Vnew as stored
    chunk_state: Precision = FP32  # (15) h[c] as stored
    q_scaled: Precision = FP32  # (17) q·scale
    q_decayed: Precision = FP32  # (17) q·scale·2^G
    output: Precision = FP32  # (18) o as stored

    # Recurrent form
    recurrent_qk: Precision = FP32  # normalised q and k in registers
    recurrent_beta: Precision = FP32

    # Structure
    chunk: int = 64
    sub_chunk: int = 16
    diagonal: Literal["direct", "first", "middle"] = "direct"
    """Reference of a diagonal block: none (each pair's own difference, in fp32), the sub-chunk's first token, or token
    min(8, remaining − 1), which depends on the sequence's length."""
    exp_base: Literal["2", "e"] = "2"
    norm: Literal["divide", "rsqrt"] = "divide"
    recurrent_norm: Literal["divide", "rsqrt"] = "divide"
    beta_site: Literal["kernel", "outside", "nowhere"] = "kernel"
    """Where the sigmoid of beta is applied: inside the kernel in fp32, outside in the activation dtype, or (a fault)
    not at all."""
    decay_site: Literal["kernel", "outside"] = "kernel"
    grid_origin: Literal["extend", "absolute"] = "extend"
    rounding: Rounding = Rounding.NEAREST

    def precisions(self) -> dict[str, Precision]:
        """The rounding points by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Precision)}


EXACT = Recipe("exact")

ORACLE = replace(
    Recipe("oracle"),
    **dict.fromkeys(Recipe("oracle").precisions(), FP64),  # type: ignore[arg-type]
)

SGLANG = Recipe(
    "sglang",
    activation=BF16,
    conv_out=BF16,
    qk_norm=BF16,
    intra_operand=BF16,
    qk_matrix=BF16,
    inverse_merge=TF32,
    inverse=BF16,
    beta_v=BF16,
    u=BF16,
    beta_k=BF16,
    w=BF16,
    k_decayed=BF16,
    state_operand=BF16,
    v_new=BF16,
    chunk_state=BF16,
    q_scaled=BF16,
    q_decayed=BF16,
    output=BF16,
)

PRESETS = {recipe.name: recipe for recipe in (EXACT, ORACLE, SGLANG)}


def preset(name: str) -> Recipe:
    """The preset of that name.

    Raises:
        ValueError: no such preset; the text lists them.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown recipe {name!r}; choose one of {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
