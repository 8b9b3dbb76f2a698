"""``replaycheck selftest``: prove that the gates can fail, and that nothing else alarms."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import options
from replaycheck.cli.progress import Progress
from replaycheck.errors import ExitCode, UsageError
from replaycheck.files import new_folder

__all__ = ["command"]


@click.command(
    epilog=options.example(
        "replaycheck selftest --list",
        "replaycheck selftest --quick",
        "replaycheck selftest --gates my-gates.toml",
        "replaycheck selftest --fault examples.fault:FAULT --fault conv-late --out /tmp/selftest",
    )
)
@options.gates_option
@options.model_option
@options.fault_option
@options.device_option
@options.workers_option
@options.out_option
@options.json_option
@click.option("--quick", is_flag=True, help="The exact gates, one seed and a fault or two of each kind, as in CI.")
@click.option("--list", "listed", is_flag=True, help="Name the faults that ship, with what each imitates; plant none.")
@click.option("--admission-only", is_flag=True, help="Admit the gates that ship and leave out the matrix.")
def command(
    gates: tuple[str, ...],
    model: Path | None,
    faults: tuple[str, ...],
    device: str,
    workers: int | None,
    out: Path | None,
    as_json: bool,
    quick: bool,
    admission_only: bool,
    listed: bool,
) -> int:
    """Plant faults on purpose: each gate's own on the quick suite, then all that ship in their smallest cells.

    The gates' records of admission are written beside their files. Exit code 1: a fault escaped that a gate or probe
    claims to catch, or something clean alarmed, or a gate isn't admitted. With --gates these files are admitted and
    nothing else is done, since the matrix is judged by the gates that ship. With --fault the matrix has these faults alone,
    and no gate is admitted.
    """
    if listed:
        _list(as_json)
        return ExitCode.PASS
    if gates and faults:
        raise UsageError(
            "--gates admits files and --fault plants faults in the matrix, which has gates of its own; give one"
        )
    if out is not None:
        new_folder(out)
    from replaycheck.selftest.run import Asked, selftest

    say = Progress()
    asked = Asked(
        gates, model, faults, quick, device, workers, admitting=not faults, matrix=not (admission_only or gates)
    )
    found = selftest(asked, say)
    if out is not None:
        from replaycheck.report.selftest_html import write_selftest

        say(f"wrote {write_selftest(out, found)}")
    if as_json:
        options.emit_json(found.model_dump(mode="json"))
    else:
        from replaycheck.report.selftest_text import selftest_text

        click.echo(selftest_text(found), nl=False)
    return ExitCode.PASS if found.passed else ExitCode.FAIL


def _list(as_json: bool) -> None:
    """By family; the code is that of the finding that a fault should lead to."""
    from replaycheck.faults.shipped import FAMILIES, FAULTS
    from replaycheck.text import wrapped

    if as_json:
        options.emit_json({name: {"code": each.code, "imitates": each.imitates} for name, each in FAULTS.items()})
        return
    for family, faults in FAMILIES.items():
        click.echo(f"{family}:")
        for each in faults:
            click.echo(wrapped(f"  {each.name}  {each.code}, {each.imitates}", 6))
