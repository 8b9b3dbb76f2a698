"""``replaycheck trace import``: read what other tools recorded."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli.options import FiniteRange, emit_json, example, json_option
from replaycheck.errors import UsageError
from replaycheck.files import new_file
from replaycheck.text import printable
from replaycheck.traces.importers.registry import AUTO, BUILT_IN, GROUP

__all__ = ["command"]

_EXAMPLE = example(
    "replaycheck trace export suite:quick --format openai --out /tmp/chats.jsonl",
    "replaycheck trace import auto /tmp/chats.jsonl --out /tmp/imported.jsonl --max-tokens 2000",
)
_FORMATS = f"Formats: {AUTO}, {', '.join(BUILT_IN)}; installed packages add theirs ({GROUP}); pkg.mod:IMPORTER."


@click.command("import", epilog=f"{_FORMATS}\n\n{_EXAMPLE}")
@click.argument("name", metavar="FORMAT")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FILE.jsonl", help="Write the groups here."
)
@click.option("--max-traces", type=click.IntRange(min=1), metavar="N", help="Stop after N groups.")
@click.option(
    "--scale",
    type=FiniteRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Keep this share of each turn's characters, its first ones. Turns and what they share stay.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=8),
    metavar="N",
    help="Scale each group so that its longest path has N tokens.",
)
@click.option(
    "--group-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="N",
    help="Requests of a group, for formats without sessions.",
)
@click.option(
    "--tails",
    type=click.Choice(["own", "next"]),
    default="own",
    show_default=True,
    help="The unhashed end of a prompt: text of its own, or how the next prompt goes on.",
)
@click.option("--anonymise", is_flag=True, help="Keep lengths, structure and hashes, and no text.")
@json_option
def command(
    name: str,
    files: tuple[Path, ...],
    out: Path,
    max_traces: int | None,
    scale: float,
    max_tokens: int | None,
    group_size: int,
    tails: str,
    anonymise: bool,
    as_json: bool,
) -> None:
    """Import FILEs of FORMAT as traces; `auto` recognises the format. Says what was dropped, and why."""
    from replaycheck.traces.importers.api import Context, Options
    from replaycheck.traces.importers.run import choose, written

    if any(out.exists() and path.exists() and out.samefile(path) for path in files):
        raise UsageError(f"--out {str(out)!r} is one of the files to import; give another file")
    new_file(out)
    context = Context(Options(scale, max_tokens, max_traces, group_size, anonymise, tails))
    chosen = choose(name, files)
    if not as_json:
        for each in chosen:
            click.echo(printable(f"{each.source.path}: {each.importer.name} ({each.why})"), err=True)
    sizes = written(chosen, context, out)
    if as_json:
        sources = [
            {"path": str(each.source.path), "format": each.importer.name, "why": each.why, "sha256": each.source.sha256}
            for each in chosen
        ]
        emit_json({"out": str(out), "files": sources, **sizes.record(), **context.log.record()})
        return
    for line in context.log.lines():
        click.echo(printable(line), err=True)
    click.echo(f"{out}: {sizes.text()}")
