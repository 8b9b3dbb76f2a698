"""``replaycheck bisect``: the smallest case that still fails, or the commit that broke it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli import options
from replaycheck.cli.progress import Progress

if TYPE_CHECKING:
    from replaycheck.diagnose.shrink.command import Shrunk
    from replaycheck.schema.bisect import Bisected

__all__ = ["command"]


@click.command(
    epilog=options.example(
        "replaycheck run --fault restore-late --out /tmp/faulty",
        "replaycheck bisect /tmp/faulty --out /tmp/small",
        'replaycheck bisect --git v1.0..HEAD --run "replaycheck run suite.toml"',
    )
)
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
@click.option(
    "--cell", metavar="NAME", help="Make this exact cell small. [default: the one with most signs of failure]"
)
@click.option("--git", "commits", metavar="GOOD..BAD", help="Find the first bad commit of the repository here.")
@click.option(
    "--run", "judge", metavar="CMD", help="With --git: a command that exits 0 on good commits and 1 on bad ones."
)
@options.out_option
@options.json_option
def command(
    run: Path | None, cell: str | None, commits: str | None, judge: str | None, out: Path | None, as_json: bool
) -> int:
    """Make the failing cell of RUN small: fewest requests, tokens, layers, heads and switches that still fail.

    Writes small.jsonl, small.toml and, if layers or heads went, a model into --out, and prints one command that fails.
    An interrupted search goes on when it is started again with the same --out.

    With --git, runs CMD on commits in a worktree of its own; the checkout isn't touched.
    """
    from replaycheck.errors import UsageError

    if commits or judge:
        if not (commits and judge) or run or cell:
            raise UsageError("--git GOOD..BAD and --run CMD go together, and take no RUN and no --cell")
        return _commits(commits, judge, as_json)
    if run is None:
        raise UsageError("give RUN, the folder of a run that failed; or --git GOOD..BAD --run CMD")
    return _shrink(run, cell, out, as_json)


def _shrink(path: Path, cell: str | None, out: Path | None, as_json: bool) -> int:
    from replaycheck.cli.from_run import settings_of
    from replaycheck.diagnose.shrink.command import shrink
    from replaycheck.replay.store import open_run

    record = open_run(path)
    found = shrink(settings_of(path), record, out or path / "bisect", cell, Progress())
    if as_json:
        options.emit_json(_record(found).model_dump(mode="json"))
    else:
        click.echo(_text(found), nl=False)
    return 0 if found.fails else 1


def _record(found: Shrunk) -> Bisected:
    from replaycheck.schema.bisect import Bisected

    e = found.explanation
    return Bisected(
        cell=found.cell,
        check=found.check,
        tokens_before=found.tokens[0],
        tokens=found.tokens[1],
        layers=found.layers,
        heads=found.heads,
        tests=found.tests,
        seconds=found.seconds,
        trace=str(found.reproduction.trace),
        suite=str(found.reproduction.suite),
        command=found.reproduction.line,
        fails=found.fails,
        code=e.code if e else None,
        confidence=e.confidence if e else None,
        sentence=e.sentence if e else None,
        evidence=e.evidence if e else (),
        excluded=e.excluded if e else (),
    )


def _text(found: Shrunk) -> str:
    from replaycheck.diagnose.codes import lookup

    before, after = found.tokens
    lines = [
        f"{found.cell} fails in {found.check}",
        f"{before} tokens became {after}; layers {_list(found.layers)}, heads {_list(found.heads)} of the model are left",
        f"{found.tests} cases tried, {found.seconds:.0f} s of CPU",
    ]
    if found.explanation:
        e = found.explanation
        lines += [f"{e.code} ({e.confidence}), {lookup(e.code).title}. {e.sentence}"]
        lines += [f"  {each}" for each in e.evidence]
    lines += ["", found.reproduction.line, "", "It fails." if found.fails else "It does not fail when it is run alone."]
    return "\n".join(lines) + "\n"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _commits(commits: str, judge: str, as_json: bool) -> int:
    from replaycheck.diagnose.shrink.commits import bisect_commits

    found = bisect_commits(Path.cwd(), commits, judge, Progress())
    if as_json:
        options.emit_json(asdict(found))
    else:
        click.echo(found.text, nl=False)
    return 0
