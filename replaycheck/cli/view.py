"""``replaycheck view RUN``: look at a saved run's report in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli.options import example

__all__ = ["command"]


@click.command("view", epilog=example("replaycheck view reports/20260101T120000Z-1a2b --no-browser"))
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Listen on this port. [default: a free one]"
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page in the default browser.")
def command(run: Path, port: int, browser: bool) -> None:
    """Serve the report of the saved run in folder RUN on 127.0.0.1 until Ctrl-C, which ends with exit code 0.

    Only the run's own files are served, and only to this machine.
    """
    from replaycheck.report.serve import serve

    server = serve(run, port)
    url = f"http://127.0.0.1:{server.server_port}/"
    click.echo(url)
    click.echo("Stop with Ctrl-C.", err=True)
    if browser:
        click.launch(url)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        # The way to end it, so no failure: nothing was left undone.
        click.echo("stopped", err=True)
    finally:
        server.server_close()
