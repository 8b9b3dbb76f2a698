"""``replaycheck explain CODE``: the page of a finding's code; without a code, the list of codes."""

from __future__ import annotations

from dataclasses import asdict

import click

from replaycheck.cli.options import emit_json, example, json_option
from replaycheck.diagnose.codes import CODES, index, lookup, page
from replaycheck.text import wrapped

__all__ = ["command"]


@click.command("explain", epilog=example("replaycheck explain", "replaycheck explain RC101"))
@click.argument("code", required=False)
@json_option
def command(code: str | None, as_json: bool) -> None:
    """Explain the finding CODE: what it is, why it is bad, how it looks, an example, what to do."""
    if as_json:
        emit_json(asdict(lookup(code)) if code else {entry.code: entry.title for entry in CODES.values()})
    else:
        text = page(code) if code else index()
        for line in text.splitlines():
            click.echo(wrapped(line, 2 if line.startswith(("*", "-", "RC")) else 0))
