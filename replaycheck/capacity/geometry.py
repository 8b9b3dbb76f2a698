"""Layers, heads and widths that memory depends on. A config's experts don't matter here, so they aren't refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replaycheck.errors import UsageError, choices
from replaycheck.model.config import CONFIG_FILE, kda_geometry, layer_kinds
from replaycheck.model.fields import read_json_object
from replaycheck.names import did_you_mean

__all__ = ["GEOMETRIES", "Geometry", "geometry_named", "geometry_of"]


@dataclass(frozen=True)
class Geometry:
    """Of a whole model, before it is split over ranks.

    Attributes:
        layers, heads, key, value: recurrent layers; each head's state is [value, key].
        conv_width: W of the short convolution, whose state is W − 1 inputs of q, k and v.
        attention_layers, latent: full-attention layers and the elements that each caches a token (MLA: one latent and the
            shared rotary part, not split by heads).
        source: where the numbers are from.
    """

    name: str
    layers: int
    heads: int
    key: int
    value: int
    conv_width: int
    attention_layers: int
    latent: int
    source: str


#: 69 and 24 layers, 96 heads, 128 × 128 are public; convolution and latent are those of Kimi-Linear-48B, an assumption.
_K3: Final = Geometry(
    "kimi-k3", 69, 96, 128, 128, 4, 24, 576, "public geometry; convolution and latent as in Kimi-Linear-48B (assumed)"
)
_LINEAR_48B: Final = Geometry("kimi-linear-48b", 20, 32, 128, 128, 4, 7, 576, "its config.json, by hand")
GEOMETRIES: Final = {g.name: g for g in (_K3, _LINEAR_48B)}


def geometry_named(name: str) -> Geometry:
    """A geometry that ships.

    Raises:
        UsageError: no such name; the text lists them.
    """
    if name not in GEOMETRIES:
        raise UsageError(
            f"unknown geometry {name!r}{did_you_mean(name, GEOMETRIES)}; choose {choices(GEOMETRIES)}, or give --model DIR"
        )
    return GEOMETRIES[name]


def geometry_of(path: Path) -> Geometry:
    """The geometry of a Kimi Linear style model folder, or of its ``config.json``.

    Raises:
        UsageError: the file isn't there or a field is missing or out of range.
    """
    file = path / CONFIG_FILE if path.is_dir() else path
    fields = read_json_object(file)
    kinds = layer_kinds(fields)
    heads, width, conv_width = kda_geometry(fields)
    attention = kinds.count("mla")
    latent = fields.integer("kv_lora_rank") + fields.integer("qk_rope_head_dim", 0) if attention else 0
    name = path.name if path.is_dir() else path.parent.name
    return Geometry(name, kinds.count("kda"), heads, width, width, conv_width, attention, latent, str(file))
