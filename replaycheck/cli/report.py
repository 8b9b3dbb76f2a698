"""``replaycheck report RUN``: render the report of a saved run again."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli.options import emit_json, example, json_option, show_text_option

__all__ = ["command"]


@click.command("report", epilog=example("replaycheck report reports/20260101T120000Z-1a2b"))
@click.argument("run", type=click.Path(path_type=Path))
@show_text_option
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="OTHER",
    help="Show what differs between this run's environment and that of the run in folder OTHER.",
)
@json_option
def command(run: Path, show_text: bool, against: Path | None, as_json: bool) -> None:
    """Render report.html, summary.md and junit.xml of the saved run in folder RUN again; nothing is computed."""
    from replaycheck.report.write import write_all

    report = write_all(run, show_text, against)
    if as_json:
        emit_json({"report": str(report)})
    else:
        click.echo(report)
