"""``replaycheck trace synth``: make a suite again, or draw traces like those of a file."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli.options import FiniteRange, emit_json, example, json_option, model_option, seed_option
from replaycheck.cli.progress import Progress
from replaycheck.errors import ExitCode, UsageError
from replaycheck.files import new_file
from replaycheck.traces.suite import find_traces

__all__ = ["synth"]


@click.command(
    epilog=example(
        "replaycheck trace synth --suite quick --check",
        "replaycheck trace synth --suite chunk_edges --seed 7 --size small --out /tmp/edges.jsonl",
        "replaycheck trace synth --like suite:quick --count 100 --scale 0.5 --out /tmp/like.jsonl",
    )
)
@click.option("--suite", metavar="NAME", help="Make this suite: its texts, and answers sampled from the model.")
@click.option("--like", metavar="FILE|suite:NAME", help="Draw traces with the statistics of this trace file.")
@click.option("--size", metavar="NAME", help="small, medium or large, of a suite that comes in sizes. [default: small]")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Groups to draw, with --like. [default: 100]")
@click.option(
    "--scale",
    type=FiniteRange(min=0, max=16, min_open=True),
    metavar="S",
    help="Multiply the source's lengths by this, with --like. [default: 1]",
)
@seed_option
@model_option
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write here; a file that exists is refused."
)
@click.option("--check", is_flag=True, help="Write nothing: compare a suite with what ships, and exit 1 if it differs.")
@json_option
def synth(
    suite: str | None,
    like: str | None,
    size: str | None,
    count: int | None,
    scale: float | None,
    seed: int,
    model: Path | None,
    out: Path | None,
    check: bool,
    as_json: bool,
) -> ExitCode:
    """Make the traces of a suite, or traces like a file's.

    The same suite, seed, size and model give the same bytes. Seed 0 gives what ships.
    """
    if (suite is None) is (like is None):
        raise UsageError(
            "give either --suite NAME, to make a suite, or --like FILE, to draw traces like those of a file"
        )
    if suite is not None:
        _refuse("--suite", {"--count": count, "--scale": scale})
        return _suite(suite, size or "small", seed, model, out, check, as_json)
    _refuse("--like", {"--size": size, "--model": model, "--check": check or None})
    return _like(str(like), 100 if count is None else count, 1.0 if scale is None else scale, seed, out, as_json)


def _refuse(mode: str, given: dict[str, object | None]) -> None:
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} has no meaning with {mode}; leave it out")


def _fresh(out: Path | None) -> Path:
    if out is None:
        raise UsageError("no --out FILE was given; name the file to write")
    return new_file(out)


def _suite(
    name: str, size: str, seed: int, model: Path | None, out: Path | None, check: bool, as_json: bool
) -> ExitCode:
    from replaycheck.assets import model_dir
    from replaycheck.replay.synthesise import check_suite, make_suite, shipped_file, write_suite
    from replaycheck.traces.suites.catalog import suite_source

    source = suite_source(name)
    source.make(size, seed)
    shipped = None if model else shipped_file(source, size, seed)
    if check and (out or shipped is None):
        raise UsageError(_unchecked(name, size, out))
    path = None if check else _fresh(out)
    groups = make_suite(source, size, seed, model or model_dir(None), Progress())
    made = write_suite(groups, path, shipped) if path else check_suite(groups, Path(str(shipped)))
    record = {
        "suite": name,
        "size": size,
        "seed": seed,
        "out": str(path) if path else None,
        "groups": made.groups,
        "shipped": made.shipped.name if made.shipped else None,
        "difference": str(made.difference) if made.difference else None,
    }
    if as_json:
        emit_json(record)
    else:
        click.echo(_made(record))
    return ExitCode.FAIL if check and made.difference else ExitCode.PASS


def _made(record: dict[str, object]) -> str:
    wrote = f"{record['out']}: {record['groups']} groups" if record["out"] else f"{record['groups']} groups made"
    if record["shipped"] is None:
        return wrote
    if record["difference"] is None:
        return f"{wrote}, the same bytes as {record['shipped']}, which ships"
    return f"{wrote}; they differ from {record['shipped']}, which ships: {record['difference']}"


def _unchecked(name: str, size: str, out: Path | None) -> str:
    if out:
        return (
            "--check writes nothing; leave --out out, or leave --check out: a difference from what ships is said anyway"
        )
    return (
        f"suite {name!r}, size {size!r}, doesn't ship with this seed and model, so there is nothing to --check it with; "
        "give --out FILE, or see `replaycheck trace list` for what ships (seed 0 and the shipped model)"
    )


def _like(like: str, count: int, scale: float, seed: int, out: Path | None, as_json: bool) -> ExitCode:
    from replaycheck.traces.like import draw_like

    path = _fresh(out)
    comparison = draw_like(find_traces([like])[0], path, count, scale, seed)
    if as_json:
        emit_json(comparison.record())
    else:
        click.echo("\n".join(comparison.lines()))
    return ExitCode.PASS
