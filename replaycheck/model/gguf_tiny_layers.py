"""Fields and tensors of the tiny architectures, one function a layer (see :mod:`replaycheck.model.gguf_tiny`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from replaycheck.model.config import ModelConfig
from replaycheck.model.gguf_draws import Array, Draws
from replaycheck.model.gguf_file import Field
from replaycheck.model.tensors import TensorSpec
from replaycheck.traces import vocabulary

LAYERS: Final = 8
WIDTH: Final = 128
INNER: Final = 256
"""Of MLPs, and of Mamba's state space."""

HEADS, KV_HEADS, HEAD = 4, 2, 32
CONV: Final = 4
EPSILON: Final = 1e-5

Fields = dict[str, Field]
Tensors = dict[str, Array]

_RMS: Final[Fields] = {"attention.layer_norm_rms_epsilon": EPSILON}
_NO_ATTENTION: Final[Fields] = {"feed_forward_length": 0, "attention.head_count": 0}
_ATTENTION: Final[Fields] = {
    "feed_forward_length": INNER,
    "attention.head_count": HEADS,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "rope.dimension_count": HEAD,
    "rope.freq_base": 10000.0,
    **_RMS,
}


def plain_ends(draws: Draws) -> Tensors:
    """Embedding, output norm and head."""
    return {
        "token_embd.weight": draws.normal(vocabulary.SIZE, WIDTH),
        "output_norm.weight": draws.norm(WIDTH),
        "output.weight": draws.head(vocabulary.SIZE, WIDTH),
    }


def _mlp(draws: Draws) -> Tensors:
    return {
        "ffn_gate.weight": draws.matrix(INNER, WIDTH),
        "ffn_up.weight": draws.matrix(INNER, WIDTH),
        "ffn_down.weight": draws.branch(WIDTH, INNER),
    }


def _attention(draws: Draws, queries: int = 1) -> Tensors:
    """``queries``: 2 with an output gate beside each query."""
    return {
        "attn_q.weight": draws.matrix(queries * HEADS * HEAD, WIDTH),
        "attn_k.weight": draws.matrix(KV_HEADS * HEAD, WIDTH),
        "attn_v.weight": draws.matrix(KV_HEADS * HEAD, WIDTH),
        "attn_output.weight": draws.branch(WIDTH, HEADS * HEAD),
    }


def _head_norms(draws: Draws) -> Tensors:
    return {"attn_q_norm.weight": draws.norm(HEAD), "attn_k_norm.weight": draws.norm(HEAD)}


LLAMA: Final[Fields] = {**_ATTENTION, "attention.head_count_kv": KV_HEADS}


def llama(draws: Draws, layer: int) -> Tensors:
    """Attention in every layer: the control."""
    norms = {"attn_norm.weight": draws.norm(WIDTH), "ffn_norm.weight": draws.norm(WIDTH)}
    return {**norms, **_attention(draws), **_mlp(draws)}


_STATE, _RANK = 16, 8
MAMBA: Final[Fields] = {
    **_NO_ATTENTION,
    **_RMS,
    "ssm.conv_kernel": CONV,
    "ssm.inner_size": INNER,
    "ssm.state_size": _STATE,
    "ssm.time_step_rank": _RANK,
}


def mamba(draws: Draws, layer: int) -> Tensors:
    """Mamba-1 in every layer."""
    return {
        "attn_norm.weight": draws.norm(WIDTH),
        "ssm_in.weight": draws.matrix(2 * INNER, WIDTH),
        "ssm_conv1d.weight": draws.convolution(INNER, CONV),
        "ssm_conv1d.bias": draws.normal(INNER, std=0.1),
        "ssm_x.weight": draws.matrix(_RANK + 2 * _STATE, INNER, 2.0),
        "ssm_dt.weight": draws.matrix(INNER, _RANK, 0.5),
        "ssm_dt.bias": draws.time_step_bias(INNER),
        "ssm_a": draws.rates(INNER, _STATE),
        "ssm_d": draws.norm(INNER),
        "ssm_out.weight": draws.branch(WIDTH, INNER),
    }


_STATE2, _HEADS2, _GROUPS = 32, 4, 1
MAMBA2: Final[Fields] = {
    **_NO_ATTENTION,
    **_RMS,
    "ssm.conv_kernel": CONV,
    "ssm.inner_size": INNER,
    "ssm.state_size": _STATE2,
    "ssm.time_step_rank": _HEADS2,
    "ssm.group_count": _GROUPS,
}


def mamba2(draws: Draws, layer: int) -> Tensors:
    """Mamba-2 in every layer: one decay a head."""
    channels = INNER + 2 * _GROUPS * _STATE2
    return {
        "attn_norm.weight": draws.norm(WIDTH),
        "ssm_in.weight": draws.matrix(INNER + channels + _HEADS2, WIDTH),
        "ssm_conv1d.weight": draws.convolution(channels, CONV),
        "ssm_conv1d.bias": draws.normal(channels, std=0.1),
        "ssm_dt.bias": draws.time_step_bias(_HEADS2),
        "ssm_a": draws.rates(_HEADS2, 1),
        "ssm_d": draws.norm(_HEADS2, 1),
        "ssm_norm.weight": draws.norm(_GROUPS, INNER // _GROUPS),
        "ssm_out.weight": draws.branch(WIDTH, INNER),
    }


_EVERY: Final = 4
_KEY_HEADS: Final = 2
QWEN35: Final[Fields] = {
    **_ATTENTION,
    "attention.head_count_kv": KV_HEADS,
    "rope.dimension_sections": [4, 6, 6, 0],
    "full_attention_interval": _EVERY,
    "ssm.conv_kernel": CONV,
    "ssm.inner_size": HEADS * HEAD,
    "ssm.state_size": HEAD,
    "ssm.time_step_rank": HEADS,
    "ssm.group_count": _KEY_HEADS,
}


def qwen35(draws: Draws, layer: int) -> Tensors:
    """Gated DeltaNet, and attention in every ``_EVERY``-th layer."""
    norms = {"attn_norm.weight": draws.norm(WIDTH), "post_attention_norm.weight": draws.norm(WIDTH)}
    if (layer + 1) % _EVERY == 0:
        return {**norms, **_attention(draws, 2), **_head_norms(draws), **_mlp(draws)}
    values = HEADS * HEAD
    channels = 2 * _KEY_HEADS * HEAD + values
    delta = {
        "attn_qkv.weight": draws.matrix(channels, WIDTH),
        "attn_gate.weight": draws.matrix(values, WIDTH),
        "ssm_conv1d.weight": draws.convolution(channels, CONV),
        "ssm_dt.bias": draws.time_step_bias(HEADS),
        "ssm_a": draws.rates(HEADS),
        "ssm_alpha.weight": draws.matrix(HEADS, WIDTH),
        "ssm_beta.weight": draws.matrix(HEADS, WIDTH),
        "ssm_norm.weight": draws.norm(HEAD),
        "ssm_out.weight": draws.branch(WIDTH, values),
    }
    return {**norms, **delta, **_mlp(draws)}


_LFM2_ATTENTION: Final = (2, 5)
_LFM2_CONV: Final = 3
LFM2: Final[Fields] = {
    **_ATTENTION,
    "attention.head_count_kv": [KV_HEADS if layer in _LFM2_ATTENTION else 0 for layer in range(LAYERS)],
    "shortconv.l_cache": _LFM2_CONV,
}


def lfm2_ends(draws: Draws) -> Tensors:
    """This architecture's files call the output norm by another name."""
    ends = plain_ends(draws)
    ends["token_embd_norm.weight"] = ends.pop("output_norm.weight")
    return ends


def lfm2(draws: Draws, layer: int) -> Tensors:
    """Short gated convolutions, and attention in the layers of ``_LFM2_ATTENTION``."""
    norms = {"attn_norm.weight": draws.norm(WIDTH), "ffn_norm.weight": draws.norm(WIDTH)}
    if layer in _LFM2_ATTENTION:
        return {**norms, **_attention(draws), **_head_norms(draws), **_mlp(draws)}
    convolution = {
        "shortconv.in_proj.weight": draws.matrix(3 * WIDTH, WIDTH),
        "shortconv.conv.weight": draws.convolution(WIDTH, _LFM2_CONV),
        "shortconv.out_proj.weight": draws.branch(WIDTH, WIDTH),
    }
    return {**norms, **convolution, **_mlp(draws)}


_LORA, _GATE_LORA = 16, 32
RWKV7: Final[Fields] = {
    "feed_forward_length": INNER,
    "attention.head_count": 0,
    "attention.layer_norm_epsilon": EPSILON,
    "attention.decay_lora_rank": _LORA,
    "attention.iclr_lora_rank": _LORA,
    "attention.value_residual_mix_lora_rank": _LORA,
    "attention.gate_lora_rank": _GATE_LORA,
    "wkv.head_size": HEAD,
    "token_shift_count": 2,
}


def rwkv7_ends(draws: Draws) -> Tensors:
    """Embedding, head and norms; RWKV normalises the embedding, too."""
    return {**plain_ends(draws), **_affine(draws, "token_embd_norm", "output_norm")}


def rwkv7(draws: Draws, layer: int) -> Tensors:
    """RWKV-7 in every layer: a delta rule with decays, rates and gates from low-rank products."""
    decays, rates, values, gates = (_low_rank(draws, name) for name in "wavg")
    return {
        **_affine(draws, "attn_norm", "attn_norm_2", "time_mix_ln"),
        **decays,
        **rates,
        **values,
        **gates,
        # exp(−0.61 sigmoid(w)) a token: a memory of 3 to 240 tokens.
        "time_mix_w0.weight": draws.uniform(-5.0, 0.0, WIDTH),
        "time_mix_a0.weight": draws.normal(WIDTH),
        "time_mix_v0.weight": draws.normal(WIDTH),
        "time_mix_lerp_fused.weight": draws.uniform(0.0, 1.0, 6, 1, 1, WIDTH),
        "time_mix_k_k.weight": draws.norm(WIDTH),
        "time_mix_k_a.weight": draws.norm(WIDTH),
        "time_mix_r_k.weight": draws.normal(WIDTH, std=0.1),
        **{f"time_mix_{name}.weight": draws.matrix(WIDTH, WIDTH) for name in ("key", "value", "receptance")},
        "time_mix_output.weight": draws.branch(WIDTH, WIDTH),
        "channel_mix_lerp_k.weight": draws.uniform(0.0, 1.0, 1, 1, WIDTH),
        "channel_mix_key.weight": draws.matrix(INNER, WIDTH),
        "channel_mix_value.weight": draws.branch(WIDTH, INNER),
    }


def _affine(draws: Draws, *names: str) -> Tensors:
    """Weight and bias of layer norms."""
    weights = {f"{name}.weight": draws.norm(WIDTH) for name in names}
    return weights | {f"{name}.bias": draws.normal(WIDTH, std=0.1) for name in names}


def _low_rank(draws: Draws, name: str) -> Tensors:
    rank = _GATE_LORA if name == "g" else _LORA
    return {
        f"time_mix_{name}1.weight": draws.matrix(rank, WIDTH),
        f"time_mix_{name}2.weight": draws.matrix(WIDTH, rank, 2.0 if name == "g" else 1.0),
    }


KIMI: Final = ModelConfig(
    vocab_size=vocabulary.SIZE,
    hidden_size=WIDTH,
    intermediate_size=INNER,
    layer_kinds=("kda", "kda", "kda", "mla", "kda", "kda", "mla", "kda"),
    kda_heads=HEADS,
    kda_head_dim=HEAD,
    conv_width=CONV,
    mla_heads=HEADS,
    kv_lora_rank=64,
    qk_nope_head_dim=HEAD,
    # With the rank a cached key of 96: a multiple of 32, as quantised caches need.
    qk_rope_head_dim=32,
    v_head_dim=HEAD,
    rms_norm_eps=EPSILON,
    max_length=8192,
    bos_token_id=vocabulary.BOS,
    eos_token_id=vocabulary.END,
    pad_token_id=vocabulary.PAD,
)


def kimi_tensor(draws: Draws, name: str, spec: TensorSpec) -> Array:
    """A tensor of a Kimi Linear checkpoint by its published name."""
    leaf = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if leaf.endswith("norm"):
        return draws.norm(*spec.shape)
    if leaf == "A_log":
        return np.log(-draws.rates(*spec.shape))
    if leaf == "dt_bias":
        return draws.time_step_bias(*spec.shape)
    if leaf.endswith("conv1d"):
        return draws.convolution(spec.shape[0], spec.shape[2])[:, None]
    if leaf == "embed_tokens":
        return draws.normal(*spec.shape)
    if leaf == "lm_head":
        return draws.head(*spec.shape)
    out, into = spec.shape
    return draws.branch(out, into) if leaf in ("o_proj", "down_proj") else draws.matrix(out, into)
