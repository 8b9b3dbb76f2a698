"""times.json: how long ``probe kernels`` took. Beside result.json, which holds nothing that differs between two runs."""

from __future__ import annotations

from pydantic import Field

from .base import Record


class RowTimes(Record):
    """One kernel.

    Attributes are seconds, summed over its properties; the child's start and its imports aren't in them.
    """

    provider: str
    kernel: str
    kind: str
    first: float = Field(description="the first pass over all properties, compilation and autotuning included")
    warm: float | None = Field(default=None, description="a second pass in the same process; null if there was none")
    properties: dict[str, float] = Field(description="seconds of each property in the last pass")
    tuned: dict[str, tuple[str, ...]] = Field(
        default={}, description="autotuned kernels and the configurations that ran; several where shapes differ"
    )


class ProbeTimes(Record):
    """The whole of times.json."""

    rows: tuple[RowTimes, ...]

    def providers(self) -> dict[str, tuple[float, float | None]]:
        """Provider → seconds of the first and of the warm pass, summed over its kernels, which may run side by side."""
        names = dict.fromkeys(row.provider for row in self.rows)
        return {name: self._sum([row for row in self.rows if row.provider == name]) for name in names}

    @staticmethod
    def _sum(rows: list[RowTimes]) -> tuple[float, float | None]:
        warm = [row.warm for row in rows if row.warm is not None]
        return sum(row.first for row in rows), sum(warm) if len(warm) == len(rows) else None
