"""Tiny random models of every kind of recurrent state that llama.cpp runs, and a control with attention alone.

Eight layers, of which hybrids have attention in two that aren't last: what attention does to the batch's shape must reach a
later recurrent state. Width 128, the vocabulary ``ascii-144``; about 1 M parameters. Names of fields and tensors are those
of llama.cpp's own graphs (``src/models/*.cpp``, build 11434).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from replaycheck.errors import UsageError, choices
from replaycheck.model import gguf_tiny_layers as layers
from replaycheck.model.gguf_draws import Array, Draws
from replaycheck.model.gguf_export import gguf_model
from replaycheck.model.gguf_file import Field, GgufModel, write_gguf
from replaycheck.model.tensors import expected_tensors
from replaycheck.names import did_you_mean
from replaycheck.traces import vocabulary

__all__ = ["ARCHITECTURES", "Tiny", "tiny_model", "write_tiny"]

CONTEXT = 8192


@dataclass(frozen=True)
class Tiny:
    """One architecture.

    Attributes:
        recurrent: whether it has a state that changes with each token.
        fields: of the file. layer: tensors of one layer, without the prefix. ends: tensors before and after the layers.
    """

    name: str
    recurrent: bool
    fields: Mapping[str, Field]
    layer: Callable[[Draws, int], Mapping[str, Array]]
    ends: Callable[[Draws], Mapping[str, Array]]


ARCHITECTURES: Mapping[str, Tiny] = {
    tiny.name: tiny
    for tiny in (
        Tiny("mamba", True, layers.MAMBA, layers.mamba, layers.plain_ends),
        Tiny("mamba2", True, layers.MAMBA2, layers.mamba2, layers.plain_ends),
        Tiny("qwen35", True, layers.QWEN35, layers.qwen35, layers.plain_ends),
        Tiny("lfm2", True, layers.LFM2, layers.lfm2, layers.lfm2_ends),
        Tiny("rwkv7", True, layers.RWKV7, layers.rwkv7, layers.rwkv7_ends),
        Tiny("llama", False, layers.LLAMA, layers.llama, layers.plain_ends),
    )
}
"""All but ``kimi-linear``, which is a checkpoint of ours, exported."""

KIMI_LINEAR = "kimi-linear"


def names() -> list[str]:
    """Every architecture that :func:`tiny_model` makes, recurrent ones first."""
    controls = [tiny.name for tiny in ARCHITECTURES.values() if not tiny.recurrent]
    return sorted([*ARCHITECTURES, KIMI_LINEAR], key=lambda name: (name in controls, name))


def tiny_model(name: str, seed: int = 0) -> GgufModel:
    """A model of that architecture with weights from ``seed``. Raises :class:`UsageError` for another name."""
    draws = Draws(seed)
    if name == KIMI_LINEAR:
        weights = {key: layers.kimi_tensor(draws, key, spec) for key, spec in expected_tensors(layers.KIMI).items()}
        return gguf_model(f"tiny-{name}", layers.KIMI, weights)
    if name not in ARCHITECTURES:
        raise UsageError(f"no architecture {name!r}{did_you_mean(name, names())}; choose {choices(names())}")
    tiny = ARCHITECTURES[name]
    tensors = dict(tiny.ends(draws))
    for layer in range(layers.LAYERS):
        tensors |= {f"blk.{layer}.{key}": tensor for key, tensor in tiny.layer(draws, layer).items()}
    fields: dict[str, Field] = {
        "vocab_size": vocabulary.SIZE,
        "context_length": CONTEXT,
        "embedding_length": layers.WIDTH,
        "block_count": layers.LAYERS,
        **tiny.fields,
    }
    return GgufModel(f"tiny-{name}", name, fields, tensors)


def write_tiny(folder: Path, name: str, seed: int = 0) -> Path:
    """Write ``tiny-NAME.gguf`` into ``folder``, and say where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"tiny-{name}.gguf"
    write_gguf(file, tiny_model(name, seed))
    return file
