"""The geometry of a Kimi Linear checkpoint, read from ``config.json`` with the standard library alone.

Accepted are dense checkpoints without rotary embedding, in either spelling: the published checkpoint's
``linear_attn_config`` or transformers' ``layer_types`` and ``linear_*``. What the lab cannot run is
refused here by name (experts, a low-rank query), so that no run starts on a model it would misread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from replaycheck.errors import UsageError
from replaycheck.model.fields import Fields, read_json_object

__all__ = [
    "CONFIG_FILE",
    "KV_NORM_EPS",
    "LayerKind",
    "ModelConfig",
    "kda_geometry",
    "layer_kinds",
    "load_config",
    "parse_config",
]

CONFIG_FILE: Final = "config.json"

#: The norm of the compressed key-value keeps the reference's own default, whatever ``rms_norm_eps`` says
#: (transformers 5.23, ``KimiLinearAttention.kv_a_layernorm``; so did DeepSeek-V2, where MLA comes from).
KV_NORM_EPS: Final = 1e-6

LayerKind = Literal["kda", "mla"]

_KINDS: Final[dict[str, LayerKind]] = {"linear_attention": "kda", "full_attention": "mla"}
_MAX_LAYERS: Final = 1024


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one checkpoint; widths in elements, lengths in tokens.

    ``layer_kinds`` has one entry a layer, in order. A KDA layer has ``kda_heads`` heads with keys and values
    of ``kda_head_dim``; an MLA layer has ``mla_heads`` heads, keys of ``qk_nope_head_dim + qk_rope_head_dim``
    (the second part is shared by the heads; no rotation is applied) and values of ``v_head_dim``.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_kinds: tuple[LayerKind, ...]
    kda_heads: int
    kda_head_dim: int
    conv_width: int
    mla_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    rms_norm_eps: float
    max_length: int
    bos_token_id: int
    eos_token_id: int
    pad_token_id: int

    @property
    def num_layers(self) -> int:
        """Number of layers of both kinds."""
        return len(self.layer_kinds)

    @property
    def kda_width(self) -> int:
        """Width of q, k or v of one KDA layer, all heads."""
        return self.kda_heads * self.kda_head_dim

    @property
    def qk_head_dim(self) -> int:
        """Width of a query or key of one MLA head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def kda_layers(self) -> tuple[int, ...]:
        """Indices of the KDA layers, from 0 (``linear_attn_config`` counts from 1)."""
        return tuple(i for i, kind in enumerate(self.layer_kinds) if kind == "kda")

    @property
    def mla_layers(self) -> tuple[int, ...]:
        """Indices of the MLA layers, from 0."""
        return tuple(i for i, kind in enumerate(self.layer_kinds) if kind == "mla")


def load_config(path: Path) -> ModelConfig:
    """The configuration of the model directory ``path`` (or of a ``config.json`` itself).

    Raises :class:`UsageError` that names the file and the field.
    """
    file = path / CONFIG_FILE if path.is_dir() else path
    return parse_config(read_json_object(file))


def parse_config(fields: Fields) -> ModelConfig:
    """A checked configuration from the fields of a ``config.json``."""
    _refuse_other_networks(fields)
    kinds = layer_kinds(fields)
    _refuse_experts(fields, len(kinds))
    heads = fields.integer("num_attention_heads", maximum=4096)
    fields.choice("num_key_value_heads", (heads, None), default=None)
    kda_heads, kda_head_dim, conv_width = kda_geometry(fields)
    vocab_size = fields.integer("vocab_size")
    return ModelConfig(
        vocab_size=vocab_size,
        hidden_size=fields.integer("hidden_size"),
        intermediate_size=fields.integer("intermediate_size"),
        layer_kinds=kinds,
        kda_heads=kda_heads,
        kda_head_dim=kda_head_dim,
        conv_width=conv_width,
        mla_heads=heads,
        kv_lora_rank=fields.integer("kv_lora_rank"),
        qk_nope_head_dim=fields.integer("qk_nope_head_dim"),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim"),
        v_head_dim=fields.integer("v_head_dim"),
        rms_norm_eps=fields.number("rms_norm_eps", 0.0, 1.0),
        max_length=fields.integer("model_max_length"),
        bos_token_id=fields.integer("bos_token_id", 0, vocab_size - 1),
        eos_token_id=fields.integer("eos_token_id", 0, vocab_size - 1),
        pad_token_id=fields.integer("pad_token_id", 0, vocab_size - 1),
    )


def _refuse_other_networks(fields: Fields) -> None:
    fields.choice("model_type", ("kimi_linear",))
    fields.choice("hidden_act", ("silu",), default="silu")
    fields.choice("q_lora_rank", (None,), default=None)
    fields.choice("mla_use_nope", (True,), default=True)
    fields.choice("tie_word_embeddings", (False,), default=False)
    fields.choice("attention_bias", (False,), default=False)


def _refuse_experts(fields: Fields, layers: int) -> None:
    """Dense everywhere: no experts declared, or every layer before ``first_k_dense_replace``."""
    if fields.values.get("num_experts") is None:
        return
    if fields.integer("first_k_dense_replace", 0) < layers:
        raise fields.error(
            "first_k_dense_replace", f"with experts it must be at least {layers}, since only dense layers are supported"
        )


def kda_geometry(fields: Fields) -> tuple[int, int, int]:
    """Heads, head width and convolution width of the KDA layers."""
    if "linear_attn_config" in fields.values:
        nested = fields.nested("linear_attn_config")
        names = ("num_heads", "head_dim", "short_conv_kernel_size")
    else:
        nested = fields
        names = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    # A width of 1 would have no state to carry, and engines have none either.
    return (
        nested.integer(names[0], maximum=4096),
        nested.integer(names[1], maximum=4096),
        nested.integer(names[2], minimum=2, maximum=64),
    )


def layer_kinds(fields: Fields) -> tuple[LayerKind, ...]:
    """The kind of each layer, from either spelling."""
    count = fields.integer("num_hidden_layers", maximum=_MAX_LAYERS)
    if "linear_attn_config" in fields.values:
        return _kinds_from_lists(fields.nested("linear_attn_config"), count)
    names = fields.strings("layer_types")
    if len(names) != count or not set(names) <= _KINDS.keys():
        raise fields.error("layer_types", f"it must hold {count} of {', '.join(map(repr, _KINDS))}")
    return tuple(_KINDS[name] for name in names)


def _kinds_from_lists(fields: Fields, count: int) -> tuple[LayerKind, ...]:
    """The published form: two lists of layer numbers, from 1, that cover every layer once."""
    kda, mla = fields.integers("kda_layers"), fields.integers("full_attn_layers")
    if sorted(kda + mla) != list(range(1, count + 1)):
        raise UsageError(
            f"{fields.file}: fields {fields.prefix + 'kda_layers'!r} {list(kda)} and "
            f"{fields.prefix + 'full_attn_layers'!r} {list(mla)} must name each layer from 1 to {count} exactly once"
        )
    return tuple("kda" if number in kda else "mla" for number in range(1, count + 1))
