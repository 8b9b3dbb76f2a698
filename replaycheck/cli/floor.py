"""``replaycheck floor``: measure the noise that controls show, and store it. It doesn't judge."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import groups, options
from replaycheck.cli.progress import Progress
from replaycheck.files import new_file

__all__ = ["command"]


@click.command(
    "floor",
    epilog=options.example(
        "replaycheck floor --preset ci --out floor.json",
        "replaycheck run --preset ci --floor floor.json",
        "replaycheck floor --condition reports/before",
    ),
)
@click.argument("suite", required=False, type=click.Path(path_type=Path), metavar="[SUITE.toml]")
@groups.replayed_options
@options.subject_option
@groups.engine_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.json", help="Write the floor here.")
@options.json_option
@click.option(
    "--condition",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Instead: perturb the states behind the worst cold-vs-warm positions of this run, and say what that explains.",
)
@click.option("--dry-run", is_flag=True, help="Print who computes what in each arm, and run nothing.")
def command(
    suite: Path | None,
    replayed: groups.Replayed,
    subject: str,
    engine: groups.Engine,
    out: Path | None,
    as_json: bool,
    condition: Path | None,
    dry_run: bool,
) -> None:
    """Measure the noise under which a difference says nothing: the same twice, other legitimate ways, one rounding.

    A table; with --out also a file for `run --floor`. No warm arm runs and nothing is judged.
    """
    if condition is not None:
        _conditions(condition, as_json)
        return
    from replaycheck.floor.measure import for_floor, measure_floor
    from replaycheck.floor.text import floor_text
    from replaycheck.json_files import write_json

    if out is not None:
        new_file(out)
    settings, warnings = replayed.settings(suite, engine, subject)
    settings = for_floor(settings)
    say = Progress()
    for warning in warnings:
        say(f"warning: {warning}")
    if dry_run:
        from replaycheck.replay.dry import dry_run as show
        from replaycheck.replay.stage import How

        click.echo(show(settings, How(), calibrate=False))
        return
    found = measure_floor(settings, replayed.workers, say)
    if out is not None:
        write_json(out, found)
        say(f"wrote {out}")
    if as_json:
        options.emit_json(found.model_dump(mode="json"))
    else:
        click.echo(floor_text(found), nl=False)


def _conditions(path: Path, as_json: bool) -> None:
    from replaycheck.cli.from_run import settings_of
    from replaycheck.floor.worst import condition_text, worst_conditions
    from replaycheck.replay.store import open_run, read_result
    from replaycheck.text import printable

    run = open_run(path)
    result = read_result(run)
    found = worst_conditions(settings_of(path), run, result, result.cells, Progress())
    if as_json:
        options.emit_json([each.model_dump(mode="json") for each in found])
    else:
        click.echo("\n".join(printable(condition_text(each)) for each in found) or "No position differs.")
