"""result.json of ``probe architectures``: architecture × operation of the installed transformers. No path or time in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

OperationVerdict = Literal["exact", "noise", "fault", "refused", "crashed"]
Amplified = Literal["rounding", "top-k flip", "top-k tie"]


class ArchitectureCell(Record):
    """One operation on one architecture, held against the uncached forward."""

    operation: str
    verdict: OperationVerdict
    sentence: str = ""
    size: float | None = Field(
        default=None, description="largest difference of a log-probability, nat; null if exact, not run or not finite"
    )
    size_in_double: float | None = Field(
        default=None, description="the same with everything in float64; null if that wasn't needed or can't run"
    )
    where: str = Field(default="", description="of a fault: the first comparison that shows it")
    first_wrong: int | None = Field(default=None, description="of a fault: the first wrong position there, from 0")
    wrong: int | None = Field(default=None, description="of a fault: wrong positions there")
    compared: int | None = Field(default=None, description="of a fault: positions that were compared there")
    cause: Amplified | None = Field(default=None, description="of noise beyond the floor: what amplified it")
    follows: str | None = Field(
        default=None, description="of a fault: an operation that it builds on and that is faulty, too"
    )
    script: str = Field(default="", description="of a fault: a program that shows it, without replaycheck")


class ArchitectureRow(Record):
    """One architecture of the sweep, or why it couldn't be built."""

    name: str = Field(description="model_type")
    model: str = Field(description="class of the causal language model")
    control: bool = Field(description="attention only")
    parameters: int | None = Field(description="null if it couldn't be built")
    floor: float | None = Field(description="largest error of uncached forwards against float64, nat")
    error: str = Field(default="", description="why it couldn't be built")
    cells: tuple[ArchitectureCell, ...]

    def cell(self, operation: str) -> ArchitectureCell | None:
        """The cell of that operation; None if it wasn't run."""
        return next((cell for cell in self.cells if cell.operation == operation), None)


class ArchitectureOperation(Record):
    """A column: ``group`` is the part of the table that shows it."""

    name: str
    group: str
    meaning: str


class ArchitectureTable(Record):
    """The whole of result.json."""

    schema_version: Literal[1] = 1
    verb: Literal["probe architectures"] = Field(
        default="probe architectures", description="tells this result.json from a run's"
    )
    transformers: str = Field(description="version")
    torch: str = Field(description="version")
    dtype: Literal["fp32", "bf16"]
    seed: int
    operations: tuple[ArchitectureOperation, ...]
    rows: tuple[ArchitectureRow, ...]

    def found(self, verdict: OperationVerdict) -> tuple[tuple[ArchitectureRow, ArchitectureCell], ...]:
        """Every cell of that verdict."""
        return tuple((row, cell) for row in self.rows for cell in row.cells if cell.verdict == verdict)
