"""``replaycheck selftest``: prove that the gates can fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli import options
from replaycheck.cli.progress import Progress
from replaycheck.errors import ExitCode

if TYPE_CHECKING:
    from replaycheck.replay.selftest import Caught

__all__ = ["command"]


@click.command(epilog=options.example("replaycheck selftest", "replaycheck selftest --gates my-gates.toml"))
@options.gates_option
@options.model_option
@options.json_option
def command(gates: tuple[str, ...], model: Path | None, as_json: bool) -> int:
    """Plant each gate's seeded fault, see that the gate fails, and record that beside the gate file."""
    from replaycheck.replay.selftest import selftest

    lines = selftest(gates, model, Progress())
    if as_json:
        options.emit_json({"gates": [_record(line) for line in lines]})
    else:
        for line in lines:
            click.echo(_sentence(line))
    return ExitCode.PASS if all(line.caught for line in lines) else ExitCode.FAIL


def _record(line: Caught) -> dict[str, object]:
    return {
        "file": line.file,
        "gate": line.gate,
        "fault": line.fault,
        "bound": line.bound,
        "clean": line.clean,
        "faulty": line.faulty,
        "caught": line.caught,
        "also": list(line.also),
    }


def _sentence(line: Caught) -> str:
    def show(value: float | None) -> str:
        return "nothing" if value is None else f"{value:g}"

    verdict = "caught " if line.caught else "ESCAPED"
    also = f"; fails, too: {', '.join(line.also)}" if line.also else ""
    return (
        f"{verdict} {line.fault:16} by {line.file}/{line.gate}: clean {show(line.clean)}, "
        f"with the fault {show(line.faulty)}, bound {line.bound:g}{also}"
    )
