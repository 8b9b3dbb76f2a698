"""``probe architectures``: a table, and with ``--out`` a folder.

environment.json     versions, command, times
result.json          the table; the same library, machine and seed give the same bytes
architectures.html   the same for reading
faults/*.py          a program for each fault, which needs transformers alone
"""

from __future__ import annotations

from pathlib import Path

from replaycheck.files import write_atomically
from replaycheck.json_files import write_json
from replaycheck.replay.environment import describe, finished
from replaycheck.replay.store import Run, create_run
from replaycheck.report.architectures_html import architectures_page
from replaycheck.say import Say
from replaycheck.schema.architectures import ArchitectureTable
from replaycheck.schema.environment import Environment

from .discover import select, version
from .sweep import Request, sweep

__all__ = ["probe_architectures"]


def probe_architectures(request: Request, out: Path | None, say: Say) -> ArchitectureTable:
    """Sweep and write. Nothing is written, nor long work begun, before all names are known.

    Raises:
        UsageError: an unknown architecture or operation, or a folder that isn't empty.
        EngineEnvironmentError: transformers isn't installed.
    """
    names = select(request.names)
    environment = describe(_inputs(request, names), "cpu", None)
    run = create_run(environment, out) if out else None
    table = sweep(request, say)
    if run:
        _write(run, table, finished(environment))
    return table


def _inputs(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    return {
        "architectures": ", ".join(names),
        "transformers": version(),
        "operations": ", ".join(operation.name for operation in request.operations),
        "dtype": request.dtype,
        "seed": str(request.seed),
    }


def _write(run: Run, table: ArchitectureTable, environment: Environment) -> None:
    write_json(run.environment, environment)
    write_json(run.path / "result.json", table)
    write_atomically(run.path / "architectures.html", architectures_page(table, environment).encode("utf-8"))
    faults = [(row, cell) for row, cell in table.found("fault") if cell.script]
    if faults:
        (run.path / "faults").mkdir()
    for row, cell in faults:
        write_atomically(run.path / "faults" / f"{row.name}-{cell.operation}.py", cell.script.encode("utf-8"))
