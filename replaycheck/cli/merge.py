"""``replaycheck merge``: join the shards of a run into one, judge it and write its report."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import options
from replaycheck.cli.progress import Progress

__all__ = ["command"]


@click.command(epilog=options.example("replaycheck merge shard1 shard2 --out reports/whole"))
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SHARD...")
@options.out_option
@options.json_option
@options.github_option
def command(shards: tuple[Path, ...], out: Path | None, as_json: bool, github: bool | None) -> int:
    """Join the folders that `run --shard i/n` wrote, judge, and write a report.

    The result has the same bytes as that of the whole run. Needs neither the model nor the traces.
    """
    from replaycheck.replay.merge import merge
    from replaycheck.report.github_step import publish
    from replaycheck.report.privacy import combined, mark_text
    from replaycheck.report.terminal import decorated, summary_text, terminal_width
    from replaycheck.report.write import write_all

    say = Progress()
    record, result = merge(shards, out, say)
    mark_text(record, combined(shards))
    (record.path / "log.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")
    write_all(record.path)
    if as_json:
        options.emit_json(result.model_dump(mode="json"))
    else:
        click.echo(decorated(summary_text(result, record.path, terminal_width())))
    # The gate files lie where the shards ran.
    publish(github, result.gates, {}, as_json, record.path / "summary.md")
    return result.summary.exit_code
