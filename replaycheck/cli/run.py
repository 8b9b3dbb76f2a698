"""``replaycheck run``, the main job: replay a suite under its arms, compare, judge, report."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli import groups, options
from replaycheck.cli.progress import Progress

if TYPE_CHECKING:
    from replaycheck.replay.settings import Settings
    from replaycheck.replay.stage import How
    from replaycheck.replay.store import Run
    from replaycheck.schema.environment import TextKind
    from replaycheck.schema.result import Result

__all__ = ["command"]


@click.command(
    epilog=options.example("replaycheck run", "replaycheck run --preset quick --fault bf16-snapshot --out /tmp/faulty")
)
@click.argument("suite", required=False, type=click.Path(path_type=Path), metavar="[SUITE.toml]")
@groups.replayed_options
@options.gates_option
@options.fault_option
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Ray cluster: ray://HOST:PORT, auto, or local. Needs the extra [cluster].",
)
@click.option("--shard", metavar="I/N", help="Replay every N-th part and judge nothing; `merge` joins shards.")
@options.subject_option
@groups.engine_options
@click.option("--free", is_flag=True, help="Run every arm on its own answers as well: where does what it says part?")
@click.option(
    "--floor",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="A floor that `replaycheck floor` stored. [default: the run measures its own]",
)
@options.out_option
@options.resume_option
@options.show_text_option
@options.json_option
@options.github_option
@click.option(
    "--audit",
    type=click.Choice(["record", "raise"]),
    default="record",
    show_default=True,
    help="A slot that doesn't hold what its label says: count it and go on, or stop with exit code 1.",
)
@click.option(
    "--server-options",
    metavar="sweep|NAME",
    multiple=True,
    help="With --subject llamacpp: try each option of its server on tiny models instead (docs/llamacpp.md).",
)
@click.option("--architecture", multiple=True, metavar="NAME", help="With --server-options: of these; repeatable.")
@options.exit_zero_option
@options.inconclusive_option
@click.option(
    "--budget",
    metavar="TIME",
    help="Replay as many groups as fit into 90s, 10m or 2h, a number that is fixed before anything is judged.",
)
@click.option(
    "--fail-fast", is_flag=True, help="Stop at the first part that fails a gate for good; what is done is kept."
)
@click.option("--dry-run", is_flag=True, help="Print who computes what in each arm and what it will take; run nothing.")
@click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="With --dry-run: replay the smallest group here, to expect time and memory, which is a tenth of the preset quick. "
    "[default: on; off with --cluster]",
)
def command(
    suite: Path | None,
    replayed: groups.Replayed,
    gates: tuple[str, ...],
    faults: tuple[str, ...],
    cluster: str | None,
    shard: str | None,
    subject: str,
    engine: groups.Engine,
    free: bool,
    floor: Path | None,
    out: Path | None,
    resume: Path | None,
    show_text: bool,
    as_json: bool,
    github: bool | None,
    audit: str,
    server_options: tuple[str, ...],
    architecture: tuple[str, ...],
    exit_zero: bool,
    inconclusive: str,
    budget: str | None,
    fail_fast: bool,
    dry_run: bool,
    calibrate: bool | None,
) -> int:
    """Replay traces with the cache off and on, compare, judge, and write a report.

    Without SUITE.toml and --preset, the quick preset runs: the shipped traces on the shipped model.
    """
    if server_options or architecture:
        return _server_options(subject, server_options, architecture, replayed.seed, out, as_json)
    from replaycheck.audit.labels import AuditMode
    from replaycheck.faults.fault import find_fault
    from replaycheck.floor.given import with_floor
    from replaycheck.replay.batches import WHOLE, Shard
    from replaycheck.replay.stage import How

    for name in faults:
        find_fault(name)
    settings, warnings = replayed.settings(suite, engine, subject, gates, faults, free, admitted=True)
    settings, more = with_floor(replace(settings, audit=AuditMode(audit)), floor)
    say = Progress()
    for warning in (*warnings, *more):
        say(f"warning: {warning}")
    how = How(replayed.workers, cluster, Shard.parse(shard) if shard else WHOLE)
    if budget:
        settings = _within(settings, budget, how, resume)
    if fail_fast:
        how = _watched(settings, how)
    if dry_run:
        return _shown(settings, how, calibrate is not False and not (cluster and calibrate is None), say)
    _interrupt_on_terminate()
    if shard:
        return _one_shard(settings, how, out, resume, say)
    from replaycheck.gates.summary import code_under
    from replaycheck.report.github_step import publish
    from replaycheck.report.terminal import decorated, summary_text, terminal_width
    from replaycheck.report.write import write_all

    record, result = _whole(settings, how, out, resume, say)
    write_all(record.path, show_text)
    if as_json:
        options.emit_json(result.model_dump(mode="json"))
    else:
        click.echo(decorated(summary_text(result, record.path, terminal_width())))
    files = {loaded.name: loaded.path for loaded in settings.gates}
    publish(github, result.gates, files, as_json, record.path / "summary.md")
    return code_under(result.summary.exit_code, result.summary.inconclusive > 0, inconclusive, exit_zero)


def _shown(settings: Settings, how: How, calibrate: bool, say: Progress) -> int:
    """With --dry-run."""
    from replaycheck.replay.dry import dry_run

    click.echo(dry_run(settings, how, calibrate, say))
    return 0


def _one_shard(settings: Settings, how: How, out: Path | None, resume: Path | None, say: Progress) -> int:
    """With --shard: what ``merge`` joins; nothing is judged."""
    from replaycheck.replay.run import run_shard

    kind = _text_kind(settings)
    run = run_shard(settings, how, out, resume, say)
    _keep(run, kind, say)
    click.echo(f"shard {how.shard} is in {run.path}; join all {how.shard.of} with: replaycheck merge DIR... --out DIR")
    return 0


def _whole(settings: Settings, how: How, out: Path | None, resume: Path | None, say: Progress) -> tuple[Run, Result]:
    from replaycheck.replay.run import run_whole
    from replaycheck.report.junit import crash_recorded

    kind = _text_kind(settings)
    with crash_recorded(out or resume, settings.suite.name):
        run, result = run_whole(settings, how, out, resume, say)
    _keep(run, kind, say)
    return run, result


def _text_kind(settings: Settings) -> TextKind:
    """Whose words the traces hold. Asked before the run, which may take hours and outlive its files."""
    from replaycheck.traces.private import text_kind

    return text_kind(map(settings.groups.raw, range(len(settings.groups))))


def _keep(run: Run, kind: TextKind, say: Progress) -> None:
    """What isn't a result: whether reports may show tokens, and the log."""
    from replaycheck.report.privacy import mark_text

    mark_text(run, kind)
    (run.path / "log.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")


def _within(settings: Settings, budget: str, how: How, resume: Path | None) -> Settings:
    """The settings with the groups that fit into --budget."""
    from replaycheck.replay.budget import within_budget
    from replaycheck.replay.stage import batches_of, workers_of
    from replaycheck.replay.store import open_run

    workers = workers_of(how, len(batches_of(settings, how.shard))) * how.shard.of
    return within_budget(settings, budget, workers, open_run(resume) if resume else None)


def _watched(settings: Settings, how: How) -> How:
    """With --fail-fast."""
    from replaycheck.errors import UsageError
    from replaycheck.replay.early import Watch

    if not how.shard.whole:
        raise UsageError("--fail-fast judges as it goes and a --shard judges nothing; leave one of the two out")
    return replace(how, watch=Watch(settings.cells, settings.gates))


def _server_options(
    subject: str, names: tuple[str, ...], architectures: tuple[str, ...], seed: int, out: Path | None, as_json: bool
) -> int:
    """The sweep over a server's options: 1 if one of them changes what the model says."""
    from replaycheck.errors import ExitCode, UsageError
    from replaycheck.report.server_options_text import server_options_text
    from replaycheck.subjects.server.llamacpp.sweep.command import sweep_options

    if subject != "llamacpp" or not names:
        raise UsageError(
            "--server-options and --architecture belong to --subject llamacpp; give --server-options sweep"
        )
    table = sweep_options(names, architectures, seed, out, Progress())
    if as_json:
        options.emit_json(table.model_dump(mode="json"))
    else:
        click.echo(server_options_text(table), nl=False)
    return ExitCode.FAIL if table.found("fault") or table.found("crashed") else ExitCode.PASS


def _interrupt_on_terminate() -> None:
    """A scheduler that ends a job sends SIGTERM: the same end as Ctrl-C, workers included, and exit code 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
