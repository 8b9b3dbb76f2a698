"""A recipe: how a KDA or GDN kernel computes, as data. Each field is a rounding point or a structural choice.

Numbers in brackets are rows of the rounding map that the presets follow: the order in which a chunk kernel computes, from 1
(convolution) to 20 (snapshot). A preset is a claim about a kernel, which the kernel probes test. Read in SGLang 0.5.23
(``S:`` its folder ``kernels/ops/attention/fla``), vLLM (``V:`` its ``models/kimi_k3/nvidia/ops/third_party/kda``) and
fla-core 0.6.0 (``F:`` its ``fla``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from .precision import Precision, Rounding

FP32, FP64, TF32, BF16 = Precision.FP32, Precision.FP64, Precision.TF32, Precision.BF16

Diagonal = Literal["direct", "first", "fused", "middle", "shifted"]
Norm = Literal["divide", "reciprocal", "rsqrt"]


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
    v_decayed: Precision = FP32  # (14) Vnew·2^(G_last − G), the operand of the update where ``decay_on`` is products
    chunk_state: Precision = FP32  # (15) h[c] as stored
    q_scaled: Precision = FP32  # (17) q·scale, where ``scale_on`` is the query
    q_decayed: Precision = FP32  # (17) q·scale·2^G
    output: Precision = FP32  # (18) o as stored

    # Recurrent form
    recurrent_qk: Precision = FP32  # (2) normalised q and k in registers
    recurrent_beta: Precision = FP32  # (4)

    # Structure
    chunk: int = 64
    sub_chunk: int = 16
    diagonal: Diagonal = "direct"
    """(6) Reference that both exponents of a diagonal block are relative to, for decays without a lower bound:

    direct   none; each pair's own difference, in fp32
    first    the sub-chunk's first token; exponents clamped to ±126
    fused    the same, but the exponents of rows are clamped in the chunk's first sub-chunk only
    middle   token min(8, remaining − 1), which depends on the sequence's length and lies in the future of eight tokens
    shifted  the first token, less ``diagonal_shift`` a token for half of the sub-chunk
    """
    safe_diagonal: Diagonal = "direct"
    """(7) The same for decays with a lower bound."""
    diagonal_shift: float = 2.0
    """Expected decay a token in nat for ``shifted``; (16 − 1)·2/2 = 15 nat balance both factors' ranges."""
    decay_on: Literal["operands", "products"] = "operands"
    """What decays multiply where a head has one: the operands of every product, as they must where each channel has its
    own; or, as GDN kernels do, the fp32 products q·k, k·k and q·S, and Vnew before the update of the state."""
    scale_on: Literal["query", "output"] = "query"
    """(17) What K^-½ multiplies for the part of o that reads the state: q, or the fp32 product. Where ``decay_on`` applies
    and is products, both parts of o are scaled after their products."""
    merge_first: Literal["left", "right"] = "left"
    """(10) Which product of X[i, i]·A[i, j]·X[j, j] comes first for a block beside the diagonal of the inverse. Left in all
    engines (S:chunk_intra.py:508, S:chunk_fwd.py:272, F:ops/kda/chunk_intra.py:323); right moves 2 to 3 % of the inverse's
    bf16 values, 0.3 % by more than 1 ulp (measured, K = 64, 256 tokens)."""
    exp_base: Literal["2", "e"] = "2"
    norm: Norm = "divide"
    """(2) x / √(Σx² + ε), x·(1 / √…) or x·rsqrt(…)."""
    recurrent_norm: Norm = "divide"
    beta_site: Literal["kernel", "outside", "nowhere", "twice"] = "kernel"
    """Where the sigmoid of beta is applied: inside the kernel in fp32, outside in the activation dtype, or (faults)
    not at all or by caller and kernel both."""
    decay_site: Literal["kernel", "outside"] = "kernel"
    grid_origin: Literal["extend", "absolute"] = "extend"
    rounding: Rounding = Rounding.NEAREST
    tf32_rounding: Rounding | None = None
    """How tf32 operands are rounded, if not as the rest: a tensor core drops the low bits of an fp32 register that the
    compiler hasn't rounded. Measured on an H200 for five chunk kernels (``probe kernels``, recipe): with cut operands 0.1 to
    0.8 % of the elements of reduced intermediates differ from the emulator's, with rounded ones or fp32 4.8 to 7.9 %."""

    # What no right kernel does: seeded faults in the arithmetic. Only kernels in torch run these.
    norm_epsilon: float = 1e-6
    """Under the root of the norms of q and k. Without it a key of zeros becomes NaN."""
    decay_rule: Literal["given", "swapped"] = "given"
    """Swapped: softplus where a lower bound was given, and a bound of −5 where none was."""
    decay_bias: Literal["added", "dropped"] = "added"
    decay_unit: Literal["matched", "mixed"] = "matched"
    """Mixed: a log decay in nat is the exponent of 2, which makes every decay its 0.69th power."""
    decay_at: Literal["first", "last"] = "first"
    """Last: the delta reads and the output sees the state before the token's own decay, which is applied after both."""
    scale_times: Literal[0, 1, 2] = 1
    """How often K^-½ is applied to q."""
    conv_activation: Literal["silu", "none"] = "silu"

    def precisions(self) -> dict[str, Precision]:
        """The rounding points by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Precision)}

    def rounding_of(self, precision: Precision) -> Rounding:
        """How an operand of a product is rounded to ``precision``."""
        return self.tf32_rounding or self.rounding if precision is TF32 else self.rounding

    def diagonal_form(self, bounded: bool) -> Diagonal:
        """How diagonal blocks are computed for decays with or without a lower bound."""
        return self.safe_diagonal if bounded else self.diagonal


EXACT = Recipe("exact")
"""Rounds nowhere but in fp32: the form for cross-checks."""

ORACLE = replace(
    Recipe("oracle"),
    **dict.fromkeys(Recipe("oracle").precisions(), FP64),  # type: ignore[arg-type]
)
"""float64 throughout."""

SGLANG = Recipe(
    "sglang",
    activation=BF16,
    conv_out=BF16,
    qk_norm=BF16,  # (2) S:l2norm.py:68, divided
    intra_operand=BF16,  # (5) S:chunk_intra.py:197-283, an explicit cast
    diagonal_operand=TF32,  # (7) tl.dot of fp32; only with a lower bound, for without one the diagonal is direct
    qk_matrix=BF16,  # (8)
    inverse_merge=TF32,  # (10)
    inverse=BF16,  # (10)
    beta_v=BF16,  # (11)
    u=BF16,  # (11)
    beta_k=BF16,  # (12)
    w=BF16,  # (12)
    k_decayed=BF16,  # (12)
    state_operand=BF16,  # (13)
    v_new=BF16,  # (14)
    chunk_state=BF16,  # (15)
    q_scaled=BF16,  # (17)
    q_decayed=BF16,  # (17)
    output=BF16,  # (18)
    safe_diagonal="middle",  # (7) S:chunk_intra.py:862-868
    tf32_rounding=Rounding.TOWARD_ZERO,  # (7), (10) no cvt.rna before the dot
)
"""``chunk_kda`` in Triton with more than 256 blocks, and packed decode."""

SGLANG_DIRECT = replace(SGLANG, name="sglang-direct", safe_diagonal="direct")
"""No engine's, but what our Triton kernels run with a lower bound: a reference of ``middle`` is a later token for eight
of 16, so a token's values would depend on what follows. Without a lower bound it is ``sglang``."""

SGLANG_SMALL_GRID = replace(
    SGLANG,
    name="sglang-small-grid",
    diagonal="fused",  # (6) S:chunk_intra.py:170-171, with or without a lower bound
    safe_diagonal="fused",  # (7)
)
"""``chunk_kda`` where sequences' chunks × heads ≤ 256 (S:kda.py:1203-1232): the diagonal is fused into the kernel of the
inverse. Its inverse stays in registers, cast as the stored one is (S:chunk_intra.py:550-559)."""

SGLANG_HELION = replace(
    SGLANG,
    name="sglang-helion",
    diagonal="middle",  # (7) S:../helion/kda_prefill.py, min(anchor + 8, end - 1), with or without a lower bound
    q_scaled=FP32,  # (17) S:../helion/kda_prefill.py, q·scale·2^G is rounded once
)
"""``chunk_kda`` in Helion: eight tokens of 16 depend on a later one, whatever the decay."""

SGLANG_GDN = replace(
    SGLANG,
    name="sglang-gdn",
    beta=BF16,  # (4) rounded to b's dtype (kernels/ops/attention/linear/fused_gdn_gating.py:41)
    v_decayed=BF16,  # (14) S:chunk_delta_h.py:250, one rounding of the fp32 difference times its decay
    q_scaled=FP32,  # (17) q isn't scaled
    recurrent_beta=BF16,  # (4) packed decode
    decay_on="products",  # (5), (17) S:chunk_fwd.py:190-201, S:chunk_o.py:107-108
    scale_on="output",  # (17) S:chunk_o.py:124
    exp_base="e",  # S:wy_fast.py:66; exp2 is refused with one decay a head
)
"""Gated DeltaNet: ``chunk_gated_delta_rule`` and packed decode."""

VLLM = replace(
    SGLANG,
    name="vllm",
    intra_operand=TF32,  # (5) V:chunk_intra.py:157-184, fp32 operands of a tf32 dot
    safe_diagonal="middle",  # (7) V:chunk_intra.py:457-461
    norm="rsqrt",  # (2) third_party/flash_linear_attention/ops/l2norm.py unless USE_DEFAULT_FLA_NORM is set
    recurrent_norm="divide",  # V:fused_recurrent.py; RecoverSSM's verify multiplies by rsqrt
)
"""The KDA of Kimi K3: chunk form and recurrent kernel in Triton."""

FLA = replace(
    SGLANG,
    name="fla",
    intra_operand=TF32,  # (5) F:ops/kda/chunk_intra.py
    v_decayed=BF16,  # (14) GDN only
    q_scaled=FP32,  # (17) q isn't scaled
    safe_diagonal="shifted",  # (7) F:ops/kda/chunk_intra.py:527 and 817-852
    decay_on="products",  # GDN only: F:ops/gated_delta_rule/chunk_fwd.py, F:ops/common/chunk_o.py
    scale_on="output",  # (17) F:ops/gla/chunk.py:445
    norm="reciprocal",  # (2) F:modules/norm/l2norm.py:80
    recurrent_norm="divide",  # F:ops/kda/fused_recurrent.py:157
)
"""``chunk_kda``, ``chunk_gated_delta_rule`` and their fused recurrent forms."""

PRESETS = {
    recipe.name: recipe
    for recipe in (
        EXACT,
        ORACLE,
        SGLANG,
        SGLANG_DIRECT,
        SGLANG_SMALL_GRID,
        SGLANG_HELION,
        SGLANG_GDN,
        VLLM,
        FLA,
    )
}


def preset(name: str) -> Recipe:
    """The preset of that name.

    Raises:
        ValueError: no such preset; the text lists them.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown recipe {name!r}; choose one of {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
