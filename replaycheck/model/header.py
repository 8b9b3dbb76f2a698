"""The header of a safetensors file, read and checked against the file's size before any weight is touched.

Layout: 8 bytes little-endian length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from replaycheck.errors import UsageError

__all__ = ["StoredTensor", "read_header"]

# A tensor's entry takes about 120 bytes, so this is room for 100,000 tensors.
_MAX_HEADER_BYTES: Final = 12 << 20
_PREFIX_BYTES: Final = 8
_ITEM_BYTES: Final[Mapping[str, int]] = {"BF16": 2, "F16": 2, "F32": 4}


@dataclass(frozen=True)
class StoredTensor:
    """What the file says of one tensor; ``begin`` and ``end`` are bytes from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(file: Path) -> dict[str, StoredTensor]:
    """The tensors of ``file`` by name. Raises :class:`UsageError` for a file that is truncated or malformed."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_PREFIX_BYTES), "little")
            if not 2 <= length <= min(_MAX_HEADER_BYTES, size - _PREFIX_BYTES):
                raise _truncated(file, f"its header claims {length} bytes and the file has {size}")
            raw = stream.read(length)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from None
    tensors = _parse(file, raw)
    needed = _PREFIX_BYTES + length + max((tensor.end for tensor in tensors.values()), default=0)
    if size != needed:
        raise _truncated(file, f"its header needs {needed} bytes and the file has {size}")
    return tensors


def _truncated(file: Path, what: str) -> UsageError:
    return UsageError(f"{file}: is truncated or not a safetensors file: {what}; copy or export it again")


def _parse(file: Path, raw: bytes) -> dict[str, StoredTensor]:
    try:
        entries = json.loads(raw)
    except (ValueError, RecursionError):
        raise _truncated(file, "its header is not JSON") from None
    if not isinstance(entries, dict):
        raise _truncated(file, "its header is not an object")
    return {name: _entry(file, name, entry) for name, entry in entries.items() if name != "__metadata__"}


def _entry(file: Path, name: str, entry: object) -> StoredTensor:
    """One tensor, its byte range equal to what dtype and shape need."""
    if not isinstance(entry, dict):
        raise UsageError(f"{file}: tensor {name!r} has no description in the header; export the file again")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise UsageError(f"{file}: tensor {name!r} has dtype {dtype!r}; allowed are {', '.join(_ITEM_BYTES)}")
    if not _natural_numbers(shape) or not _natural_numbers(offsets) or len(offsets) != 2:
        raise UsageError(f"{file}: tensor {name!r} has shape {shape!r} and offsets {offsets!r}; export the file again")
    begin, end = offsets
    if end - begin != math.prod(shape) * _ITEM_BYTES[dtype]:
        raise UsageError(
            f"{file}: tensor {name!r} of shape {shape} and dtype {dtype} cannot fill bytes {begin} to {end}; "
            "export the file again"
        )
    return StoredTensor(dtype, tuple(shape), begin, end)


def _natural_numbers(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
