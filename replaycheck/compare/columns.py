"""Columns of arrow tables as numpy arrays: codes of names, numbers with NaN for null, and where runs of rows begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Names", "flags", "floats", "integers", "names", "starts", "unsaid"]

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Names:
    """A column of names: ``of[code[i]]`` is that of row i."""

    of: tuple[str, ...]
    code: Codes  # [rows]

    def __getitem__(self, rows: NDArray[np.generic] | slice) -> Names:
        return Names(self.of, self.code[rows])

    def named(self, name: str) -> int:
        """The code of a name; -1 if no row has it."""
        return self.of.index(name) if name in self.of else -1


def names(column: pa.ChunkedArray) -> Names:
    """A column of strings, whether it has a dictionary or not."""
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.unify_dictionaries().combine_chunks()
    return Names(tuple(whole.dictionary.to_pylist()), whole.indices.to_numpy(zero_copy_only=False).astype(np.int64))


def floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Numbers as float64; null is NaN. An int32 fits exactly."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def integers(column: pa.ChunkedArray) -> Codes:
    """Integers without nulls."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def flags(column: pa.ChunkedArray, unseen: bool = False) -> NDArray[np.bool_]:
    """Flags; null, which is not seen, is ``unseen``."""
    if column.null_count:
        column = column.fill_null(unseen)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def unsaid(pairs: pa.Table) -> NDArray[np.bool_]:
    """[rows] of PAIRS where a subject that shows no logits said nothing about the token: no difference, and no fault.

    A NaN in logits is a null difference, too, but there bits are known to be equal or not.
    """
    return ~flags(pairs["dlogp"].is_valid()) & ~flags(pairs["bits_equal"].is_valid())


def starts(*keys: Codes) -> Codes:
    """Where a row differs from the one before it in any key: the first row of each run. Nothing for no rows."""
    n = len(keys[0])
    if not n:
        return np.empty(0, np.int64)
    differs = np.zeros(n, np.bool_)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)
