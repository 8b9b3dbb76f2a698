"""``replaycheck trace export``: traces for other tools, with what their formats can't hold."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli.options import emit_json, example, json_option
from replaycheck.errors import UsageError
from replaycheck.files import new_file

__all__ = ["command"]


@click.command("export", epilog=example("replaycheck trace export suite:quick --format dag_jsonl --out /tmp/dag.jsonl"))
@click.argument("source", metavar="FILE|suite:NAME")
@click.option(
    "--format",
    "name",
    required=True,
    type=click.Choice(["dag_jsonl", "openai", "jsonl"]),
    help="AIPerf sessions with forks, OpenAI messages, or our own.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE.jsonl", help="Write to this file.")
@json_option
def command(source: str, name: str, out: Path, as_json: bool) -> None:
    """Write the traces of SOURCE in another format. Says what the format can't hold."""
    from replaycheck.traces.export import export
    from replaycheck.traces.read import each_group
    from replaycheck.traces.suite import find_traces

    (path,) = find_traces([source])
    if out.exists() and out.samefile(path):
        raise UsageError(f"--out {str(out)!r} is the file to export; give another file")
    new_file(out)
    count, log = export(each_group(path), name, out)
    if as_json:
        lost = {key: value for key, value in log.record().items() if key != "drift"}
        emit_json({"out": str(out), "format": name, "lines": count, **lost})
        return
    for counts, title in ((log.dropped, "dropped"), (log.noted, "noted")):
        for reason, number in sorted(counts.items()):
            click.echo(f"{title} {number}: {reason}", err=True)
    click.echo(f"{out}: {count} lines of {name}")
