"""One GGUF file: metadata, the vocabulary ``ascii-144``, and fp32 tensors.

bf16 weights are stored as fp32, which is exact: llama.cpp's CPU multiplies bf16 matrices by activations that it rounds to
bf16 first, fp32 ones by activations as they are. Needs the package ``gguf`` (extra ``engines``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import EngineEnvironmentError
from replaycheck.model.tokenizer import CHAT_TEMPLATE
from replaycheck.traces import vocabulary

__all__ = ["Field", "GgufModel", "token_texts", "write_gguf"]

Field = bool | int | float | str | Sequence[int]

_NORMAL, _CONTROL = 1, 3
"""Token types of llama.cpp (``gguf.TokenType``)."""

#: llama.cpp takes a BPE vocabulary without merges from this pre-tokenizer alone.
_PRE_TOKENIZER: Final = "kimi-k2"


@dataclass(frozen=True)
class GgufModel:
    """What a file holds. ``fields`` go under the architecture's prefix; int lists are arrays of int32.

    Tensors have numpy's order of axes: a linear layer is [out, in], as in a checkpoint.
    """

    name: str
    architecture: str
    fields: Mapping[str, Field]
    tensors: Mapping[str, NDArray[np.float32]]


def write_gguf(file: Path, model: GgufModel) -> None:
    """Write ``model`` by atomic rename.

    Raises:
        EngineEnvironmentError: the package ``gguf`` isn't installed.
    """
    temporary = file.with_name(f".{file.name}.part")
    writer = _writer(temporary, model.architecture)
    writer.add_name(model.name)
    for key, value in model.fields.items():
        _add_field(writer, f"{model.architecture}.{key}", value)
    _add_vocabulary(writer)
    for name, tensor in model.tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    temporary.replace(file)


def token_texts() -> list[str]:
    """The 144 tokens in GPT-2's spelling, where a byte that isn't printable stands as U+0100 and up."""
    printable = range(ord("!"), ord("~") + 1)
    others = iter(range(256, 512))
    text = [chr(byte) if byte in printable else chr(next(others)) for byte in range(vocabulary.TEXT_SIZE)]
    return text + list(vocabulary.SPECIAL_NAMES.values())


def _writer(file: Path, architecture: str) -> Any:
    try:
        from gguf import GGUFWriter
    except ImportError:
        raise EngineEnvironmentError(
            "writing GGUF needs the package gguf; pip install 'replaycheck[engines]'"
        ) from None
    return GGUFWriter(file, architecture)


def _add_field(writer: Any, key: str, value: Field) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value))


def _add_vocabulary(writer: Any) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_PRE_TOKENIZER)
    writer.add_token_list(token_texts())
    writer.add_token_types([_NORMAL] * vocabulary.TEXT_SIZE + [_CONTROL] * len(vocabulary.SPECIAL_NAMES))
    writer.add_bos_token_id(vocabulary.BOS)
    writer.add_eos_token_id(vocabulary.END)
    writer.add_pad_token_id(vocabulary.PAD)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
