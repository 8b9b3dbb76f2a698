"""The tables of a run, as gates read them: a bounded number of rows at a time, only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

__all__ = ["InMemory", "Tables"]


class Tables(Protocol):
    """``pairs``, ``restores`` and ``divergences``, as :mod:`replaycheck.schema.tables` has them."""

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows, in blocks that hold whole traces; a table that the run doesn't have gives none."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Tables by name, of a driver that writes no files."""

    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The one block of a table."""
        if table in self.tables:
            yield self.tables[table].select(list(columns))
