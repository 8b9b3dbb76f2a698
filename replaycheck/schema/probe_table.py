"""result.json of ``probe kernels``: what it found, kernel by kernel and property by property. No path or time in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record
from .result import ProbeResult

CellVerdict = Literal["exact", "noise", "broken", "can't"]


class ProbeNumber(Record):
    """One comparison inside a cell: where, of which tensor, the relative difference and the most that is predicted."""

    where: str
    tensor: str
    number: float | None = Field(description="null if not finite")
    predicted: float | None


class ProbeCell(Record):
    """One property of one kernel."""

    property: str
    verdict: CellVerdict
    sentence: str
    number: float | None = Field(default=None, description="relative difference; null if exact or not finite")
    predicted: float | None = Field(default=None, description="the most that the recipe's rounding points allow")
    example: str = Field(default="", description="the smallest case that differs: where, which element, both values")
    numbers: tuple[ProbeNumber, ...] = Field(default=(), description="every comparison, where each is of interest")


class ProbeRow(Record):
    """One kernel of a provider and its cells."""

    provider: str
    version: str
    kernel: str
    kind: str
    form: str
    recipe: str = Field(description="the preset that the kernel claims to compute, or that it was asked to run")
    claimed: bool = Field(description="whether the kernel claims that recipe")
    cells: tuple[ProbeCell, ...]

    def cell(self, name: str) -> ProbeCell:
        """The cell of that property; KeyError if it wasn't probed."""
        return {cell.property: cell for cell in self.cells}[name]


class ProbeProperty(Record):
    """A column: ``group`` is the part of the table that shows it."""

    name: str
    group: str
    meaning: str


class ProbeTable(Record):
    """The whole of result.json."""

    schema_version: Literal[1] = 1
    verb: Literal["probe kernels"] = Field(default="probe kernels", description="tells this result.json from a run's")
    device: str
    autotune: int | None = Field(
        default=None, description="most configurations that Triton timed for a kernel; 0: all; null: it didn't autotune"
    )
    seed: int
    properties: tuple[ProbeProperty, ...]
    rows: tuple[ProbeRow, ...]
    not_probed: dict[str, str] = Field(description="kernels that couldn't be loaded or don't run here, and why")
    warnings: tuple[str, ...]
    probes: tuple[ProbeResult, ...] = Field(
        description="our kernels against float64 at the model's widths, as in a run"
    )

    @property
    def broken(self) -> tuple[tuple[ProbeRow, ProbeCell], ...]:
        return tuple((row, cell) for row in self.rows for cell in row.cells if cell.verdict == "broken")
