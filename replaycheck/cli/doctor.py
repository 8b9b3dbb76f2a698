"""``replaycheck doctor``: what this machine is, what it can run, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby

import click

from replaycheck.capabilities import Capability, Kind, capabilities, usable
from replaycheck.cli.options import emit_json, example, json_option
from replaycheck.errors import ExitCode
from replaycheck.replay.environment import describe
from replaycheck.schema.environment import Environment
from replaycheck.text import printable, wrapped

__all__ = ["command"]

HEADINGS: Mapping[Kind, str] = {
    "base": "What a run needs",
    "kernels": "Kernels (--kernels)",
    "subject": "Subjects (--subject)",
    "other": "Beside these",
}

NAMES = 22
"""Columns for the names: all but the list of HTTP subjects fit, which would push every other text off the screen."""


@click.command("doctor", epilog=example("replaycheck doctor", "replaycheck doctor --json"))
@json_option
def command(as_json: bool) -> ExitCode:
    """Say what this machine can run, and what is missing. Exits 4 if `replaycheck run` can't run."""
    environment, checks = describe({}, "cpu"), capabilities()
    if as_json:
        emit_json(_record(environment, checks))
    else:
        _print(environment, checks)
    return ExitCode.PASS if usable(checks) else ExitCode.ENVIRONMENT


def _record(environment: Environment, checks: list[Capability]) -> dict[str, object]:
    machine = environment.model_dump(mode="json", include={"versions", "platform", "cpu", "cores", "variables"})
    return {**machine, "capabilities": [asdict(check) for check in checks], "usable": usable(checks)}


def _print(environment: Environment, checks: list[Capability]) -> None:
    click.echo(f"{environment.platform}, {environment.cpu or 'unknown processor'}, {environment.cores} cores")
    click.echo(wrapped("  ".join(f"{name} {version or 'absent'}" for name, version in environment.versions.items())))
    for name, value in environment.variables.items():
        click.echo(f"{name}={printable(value)}")
    width = min(NAMES, max(len(check.name) for check in checks))
    for kind, own in groupby(checks, key=lambda check: check.kind):
        click.echo(f"\n{HEADINGS[kind]}")
        for check in own:
            mark = "yes" if check.usable else "NO " if check.required else "no "
            click.echo(wrapped(f"{mark}  {check.name:{width}}  {printable(check.text)}", width + 7))
    click.echo()
    click.echo("replaycheck run can run here" if usable(checks) else "replaycheck run can't run here: see NO above")
