"""``replaycheck subject``: what the author of a subject wants to know before the first run."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import options
from replaycheck.errors import ExitCode

__all__ = ["command"]


@click.group(epilog=options.example("replaycheck subject check null"))
def command() -> None:
    """Check that a subject of yours can be run."""


@command.command(
    epilog=options.example(
        "replaycheck subject check null",
        "replaycheck subject check examples.subject:factory",
    )
)
@click.argument("name", metavar="pkg.mod:factory")
@options.url_option
@options.model_option
@options.engine_model_option
@options.subject_settings_option
@options.device_option
@options.json_option
def check(
    name: str,
    url: str | None,
    model: Path | None,
    engine_model: str | None,
    subject_settings: tuple[str, ...],
    device: str,
    as_json: bool,
) -> int:
    """Run a tiny schedule cold, cold again and warm on a subject, and say what is missing.

    Exit code 0 if nothing is, 1 if something is, 4 if the subject can't be reached.
    """
    from replaycheck.subjects.check import check_subject
    from replaycheck.subjects.choose import make_subject

    theirs = options.subject_options(url, model, engine_model, device, subject_settings)
    found = check_subject(make_subject(name, theirs))
    if as_json:
        options.emit_json({"subject": name, "checks": [line.plain() for line in found]})
    else:
        for line in found:
            click.echo(f"{'ok' if line.good else 'MISSING':8}{line.what}: {line.said}")
    return ExitCode.PASS if all(line.good for line in found) else ExitCode.FAIL
