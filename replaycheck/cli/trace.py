"""``replaycheck trace``: list what ships, show a file as trees, count what is in it, validate files, make traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from replaycheck import assets
from replaycheck.cli.lazy import VerbGroup
from replaycheck.cli.options import emit_json, example, json_option
from replaycheck.cli.trace_export import command as export
from replaycheck.cli.trace_import import command as import_
from replaycheck.cli.trace_synth import synth
from replaycheck.errors import ExitCode, UsageError
from replaycheck.names import all_of, did_you_mean
from replaycheck.schema.trace import Group
from replaycheck.text import printable
from replaycheck.traces.describe import group_record, summaries, totals
from replaycheck.traces.read import Line, each_group, located, read_groups, scan
from replaycheck.traces.show import SHOWN, describe_group
from replaycheck.traces.suite import SUITE_PREFIX, find_traces, parse_suite

__all__ = ["command"]

# Past this many, one mistake of a generator is likely repeated on every line.
_SHOWN_PROBLEMS = 20


@click.group("trace", cls=VerbGroup, epilog=example("replaycheck trace show suite:quick"))
def command() -> None:
    """List, show, count, validate and make traces."""


command.add_command(synth)
command.add_command(import_)
command.add_command(export)


@command.command("list", epilog=example("replaycheck trace list", "replaycheck trace list --json"))
@json_option
def list_(as_json: bool) -> None:
    """List the trace suites and the presets that ship."""
    suites = {f"{SUITE_PREFIX}{name}": read_groups(path) for name, path in assets.trace_suites().items()}
    presets = {name: list(parse_suite(path).traces) for name, path in assets.presets().items()}
    if as_json:
        emit_json({"suites": {name: _suite_record(groups) for name, groups in suites.items()}, "presets": presets})
        return
    for name, groups in suites.items():
        click.echo(f"{name}  {_sizes(groups)}")
        for part in summaries(groups):
            click.echo(f"  {part.group:24}{part.tokens:7} tokens{part.requests:5} requests  {part.archetype}")
    for preset, traces in presets.items():
        click.echo(f"preset {preset}: {', '.join(traces)}")


def _suite_record(groups: Sequence[Group]) -> dict[str, object]:
    return {"totals": totals(groups), "groups": [group_record(group) for group in groups]}


def _sizes(groups: Sequence[Group]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in totals(groups).items())


@command.command(
    epilog=example("replaycheck trace show suite:quick", "replaycheck trace show suite:quick --group edges_64")
)
@click.argument("source", metavar="FILE|suite:NAME")
@click.option("--group", "name", metavar="GROUP", help="Only this group.")
@click.option("--all", "whole", is_flag=True, help=f"Every turn and request; else at most {SHOWN} of each tree.")
@json_option
def show(source: str, name: str | None, whole: bool, as_json: bool) -> None:
    """Draw the trees of a trace file: lengths, branches, where prompts end on the chunk grid, forks and other events."""
    groups = read_groups(find_traces([source])[0])
    if name is not None:
        groups = _only(groups, name, source)
    if as_json:
        emit_json({"source": source, **_suite_record(groups)})
        return
    for group in groups:
        click.echo("\n".join(describe_group(group, None if whole else SHOWN)) + "\n")
    click.echo(_sizes(groups))


def _only(groups: Sequence[Group], name: str, source: str) -> tuple[Group, ...]:
    chosen = tuple(group for group in groups if group.group == name)
    if not chosen:
        there = [group.group for group in groups]
        raise UsageError(
            f"--group {name!r} isn't in {source}{did_you_mean(name, there)}; "
            f"{all_of(there, f'replaycheck trace show {source}')}"
        )
    return chosen


@command.command(epilog=example("replaycheck trace stats suite:quick", "replaycheck trace stats suite:quick --json"))
@click.argument("sources", metavar="FILE|suite:NAME...", nargs=-1, required=True)
@click.option("--no-policies", is_flag=True, help="Don't plan what checkpoint policies would find.")
@json_option
def stats(sources: tuple[str, ...], no_policies: bool, as_json: bool) -> None:
    """Lengths, sharing, forks, distances, and what checkpoint policies would find in traces.

    Quantiles are values that occur. Groups are read one at a time and don't share a cache.
    """
    from replaycheck.traces.stats import POLICIES, stats_of
    from replaycheck.traces.stats_text import stats_lines

    groups = (group for path in find_traces(sources) for group in each_group(path))
    found = stats_of(groups, () if no_policies else POLICIES)
    if as_json:
        emit_json({"sources": list(sources), **found.record()})
    else:
        click.echo("\n".join(stats_lines(found)))


@command.command(epilog=example("replaycheck trace validate suite:quick"))
@click.argument("sources", metavar="FILE|suite:NAME...", nargs=-1, required=True)
@json_option
def validate(sources: tuple[str, ...], as_json: bool) -> ExitCode:
    """Check trace files and list every problem with its line. Exits 2 if there is one."""
    lines = [(path, line) for path in find_traces(sources) for line in scan(path)]
    bad = [(path, line) for path, line in lines if line.problems]
    if as_json:
        emit_json({"groups": len(lines) - len(bad), "problems": _problem_records(bad)})
    else:
        _print_problems(bad)
        click.echo(f"{len(lines) - len(bad)} groups valid, {len(bad)} not")
    return ExitCode.USAGE if bad else ExitCode.PASS


def _problem_records(bad: Sequence[tuple[Path, Line]]) -> list[dict[str, object]]:
    return [
        {"file": str(path), "line": line.number, "field": problem.field, "text": problem.text}
        for path, line in bad
        for problem in line.problems
    ]


def _print_problems(bad: Sequence[tuple[Path, Line]]) -> None:
    texts = [located(path, line.number, problem) for path, line in bad for problem in line.problems]
    for text in texts[:_SHOWN_PROBLEMS]:
        click.echo(printable(text), err=True)
    if len(texts) > _SHOWN_PROBLEMS:
        click.echo(f"{len(texts) - _SHOWN_PROBLEMS} more problems; --json lists all", err=True)
