"""One architecture in a process of its own: what crashes or hangs there costs an operation, not the sweep.

The parent sends one JSON object on stdin; the child (``python -m replaycheck.architectures.isolated``) prints a line for the
model and one for each operation. A child that dies is started again for the operations after the one that it died in.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from replaycheck.children import answering, ask
from replaycheck.schema.architectures import ArchitectureCell, ArchitectureRow

__all__ = ["LIMIT", "Task", "sweep_one"]

LIMIT = 600.0
"""Seconds for one architecture. They take 2 to 13 of one core; on a busy machine ten times that."""
MOST_LETTERS = 200
"""Of a child's last line, which is what a table has room for."""


@dataclass(frozen=True)
class Task:
    """Which architecture, in which dtype, with which seed, and which operations."""

    name: str
    dtype: str
    seed: int
    operations: tuple[str, ...]
    limit: float = LIMIT


def sweep_one(task: Task) -> ArchitectureRow:
    """The row of one architecture."""
    end, row = monotonic() + task.limit, None
    cells: list[ArchitectureCell] = []
    while len(cells) < len(task.operations):
        left = task.operations[len(cells) :]
        lines, reason = _child(task, left, end)
        if lines and row is None:
            row = ArchitectureRow.model_validate_json(lines[0])
        if row is None or row.error:
            return row or _unbuilt(task, reason)
        done = [ArchitectureCell.model_validate_json(line) for line in lines[1:]]
        cells += done
        if len(done) < len(left):
            cells.append(ArchitectureCell(operation=left[len(done)], verdict="crashed", sentence=reason))
    assert row is not None
    return row.model_copy(update={"cells": tuple(cells)})


def _unbuilt(task: Task, reason: str) -> ArchitectureRow:
    return ArchitectureRow(name=task.name, model="", control=False, parameters=None, floor=None, error=reason, cells=())


def _child(task: Task, operations: Sequence[str], end: float) -> tuple[list[str], str]:
    """The whole lines that a child printed, and why it ended early if it did."""
    sent = json.dumps({"name": task.name, "dtype": task.dtype, "seed": task.seed, "operations": list(operations)})
    ended = ask(__name__, sent, max(1.0, end - monotonic()), task.limit)
    return [line for line in ended.lines if line.endswith("}")], ended.reason[:MOST_LETTERS]


def main() -> int:
    """The child: a line for the model and one an operation; whatever the library prints goes to stderr."""
    task = json.load(sys.stdin)
    with answering() as out:
        for line in _lines(task["name"], task["dtype"], task["seed"], task["operations"]):
            print(line.model_dump_json(), file=out, flush=True)
    return 0


def _lines(name: str, dtype: str, seed: int, operations: Sequence[str]) -> Iterator[ArchitectureRow | ArchitectureCell]:
    import torch

    from .discover import CONTROLS, causal_models
    from .judge import Judge
    from .model import build
    from .operations import OPERATIONS
    from .refusal import short
    from .scripts import script

    torch.set_num_threads(1)
    row = ArchitectureRow(
        name=name, model=causal_models()[name], control=name in CONTROLS, parameters=None, floor=None, cells=()
    )
    try:
        judge = Judge(build(name, dtype, seed), seed)
        floor = judge.floor
    except Exception as error:
        yield row.model_copy(update={"error": short(error)})
        return
    yield row.model_copy(update={"parameters": judge.model.parameter_count, "floor": floor})
    for operation in OPERATIONS:
        if operation.name in operations:
            cell = judge.cell(operation)
            if cell.verdict == "fault":
                cell = cell.model_copy(update={"script": script(judge.model, floor, seed, cell)})
            yield cell


if __name__ == "__main__":
    sys.exit(main())
