"""``replaycheck subject``: what the author of a subject wants to know before the first run."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import groups, options
from replaycheck.cli.lazy import VerbGroup
from replaycheck.errors import ExitCode, UsageError

__all__ = ["command"]


@click.group(cls=VerbGroup, epilog=options.example("replaycheck subject check null"))
def command() -> None:
    """Check that a subject of yours can be run."""


@command.command(
    epilog=options.example(
        "replaycheck subject check null",
        "replaycheck subject check examples.subject:factory",
    )
)
@click.argument("name", metavar="pkg.mod:factory")
@groups.engine_options
@options.model_option
@options.device_option
@options.json_option
def check(
    name: str,
    engine: groups.Engine,
    model: Path | None,
    device: str,
    as_json: bool,
) -> int:
    """Run a tiny schedule cold, cold again and warm on a subject, and say what is missing.

    Exit code 0 if nothing is, 1 if something is, 4 if the subject can't be reached.
    """
    from replaycheck.subjects.check import check_subject
    from replaycheck.subjects.choose import LAB, make_subject

    if name == LAB:
        raise UsageError(
            "the lab isn't checked as a subject: `replaycheck selftest` is its check; name another subject"
        )
    found = check_subject(make_subject(name, engine.with_model(model, device)))
    if as_json:
        options.emit_json({"subject": name, "checks": [line.plain() for line in found]})
    else:
        for line in found:
            click.echo(f"{'ok' if line.good else 'MISSING':8}{line.what}: {line.said}")
    return ExitCode.PASS if all(line.good for line in found) else ExitCode.FAIL
