"""The sweep: architectures over processes, and what follows from what."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from replaycheck.errors import UsageError, choices
from replaycheck.say import Say
from replaycheck.schema.architectures import (
    ArchitectureCell,
    ArchitectureOperation,
    ArchitectureRow,
    ArchitectureTable,
)

from .discover import select, version
from .isolated import LIMIT, Task, sweep_one
from .operations import OPERATIONS, Operation

__all__ = ["Request", "sweep"]


@dataclass(frozen=True)
class Request:
    """What to sweep. only: parts of operations' names, none for all. limit: seconds for one architecture."""

    names: tuple[str, ...] = ()
    dtype: Literal["fp32", "bf16"] = "fp32"
    only: tuple[str, ...] = ()
    seed: int = 0
    workers: int = 1
    limit: float = LIMIT
    operations: tuple[Operation, ...] = field(init=False)

    def __post_init__(self) -> None:
        chosen = tuple(op for op in OPERATIONS if not self.only or any(part in op.name for part in self.only))
        if not chosen:
            raise UsageError(f"--only {', '.join(self.only)}: no operation has that in its name; choose {_names()}")
        object.__setattr__(self, "operations", chosen)


def sweep(request: Request, say: Say = lambda line: None) -> ArchitectureTable:
    """Every chosen operation on every chosen architecture.

    Raises:
        UsageError: no such architecture. EngineEnvironmentError: transformers isn't installed.
    """
    import torch

    names, operations = select(request.names), tuple(operation.name for operation in request.operations)
    tasks = [Task(name, request.dtype, request.seed, operations, request.limit) for name in names]

    def one(task: Task) -> ArchitectureRow:
        row = sweep_one(task)
        say(_line(row))
        return row

    with ThreadPoolExecutor(request.workers) as pool:
        rows = tuple(_followed(row, request.operations) for row in pool.map(one, tasks))
    return ArchitectureTable(
        transformers=version(),
        torch=torch.__version__,
        dtype=request.dtype,
        seed=request.seed,
        operations=tuple(
            ArchitectureOperation(name=o.name, group=o.group, meaning=o.meaning) for o in request.operations
        ),
        rows=rows,
    )


def _followed(row: ArchitectureRow, operations: Sequence[Operation]) -> ArchitectureRow:
    """Faults of operations that build on a faulty one say so."""
    wrong = {cell.operation for cell in row.cells if cell.verdict in ("fault", "crashed")}
    builds_on = {operation.name: operation.builds_on for operation in operations}

    def followed(cell: ArchitectureCell) -> ArchitectureCell:
        base = next((name for name in builds_on[cell.operation] if name in wrong), None)
        return cell.model_copy(update={"follows": base}) if cell.verdict == "fault" else cell

    return row.model_copy(update={"cells": tuple(map(followed, row.cells))})


def _line(row: ArchitectureRow) -> str:
    """``mamba: 2 faults, 1 crashed``"""
    if row.error:
        return f"{row.name}: can't be built: {row.error}"
    found = [cell.verdict for cell in row.cells]
    said = [f"{found.count(verdict)} {verdict}" for verdict in ("fault", "crashed") if verdict in found]
    return f"{row.name}: {', '.join(said) or 'no fault'}"


def _names() -> str:
    return choices(operation.name for operation in OPERATIONS)
