"""``replaycheck run``: the main job."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from replaycheck.cli import options
from replaycheck.cli.progress import Progress

__all__ = ["command"]


@click.command(
    epilog=options.example("replaycheck run", "replaycheck run --preset quick --fault bf16-snapshot --out /tmp/faulty")
)
@click.argument("suite", required=False, type=click.Path(path_type=Path), metavar="[SUITE.toml]")
@options.preset_option
@options.traces_option
@options.model_option
@options.recipe_option
@options.one_kernels_option
@options.kernels_path_option
@options.autotune_option
@options.gates_option
@options.fault_option
@options.seed_option
@options.device_option
@options.workers_option
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Ray cluster: ray://HOST:PORT, auto, or local. Needs the extra [cluster].",
)
@click.option("--shard", metavar="I/N", help="Replay every N-th part and judge nothing; `merge` joins shards.")
@click.option(
    "--subject",
    default="lab",
    show_default=True,
    metavar="NAME",
    help="What is under test: lab, null (computes nothing) or pkg.mod:factory.",
)
@options.out_option
@options.resume_option
@options.show_text_option
@options.json_option
@click.option(
    "--audit",
    type=click.Choice(["record", "raise"]),
    default="record",
    show_default=True,
    help="A slot that doesn't hold what its label says: count it and go on, or stop with exit code 1.",
)
@click.option("--dry-run", is_flag=True, help="Print who computes what in each arm and what it will take; run nothing.")
@click.option(
    "--calibrate/--no-calibrate",
    default=True,
    help="With --dry-run: replay the smallest group, to expect time and memory.",
)
def command(
    suite: Path | None,
    preset: str | None,
    traces: tuple[str, ...],
    model: Path | None,
    recipe: str | None,
    kernels: str,
    kernels_path: Path | None,
    autotune: int,
    gates: tuple[str, ...],
    faults: tuple[str, ...],
    seed: int,
    device: str,
    workers: int | None,
    cluster: str | None,
    shard: str | None,
    subject: str,
    out: Path | None,
    resume: Path | None,
    show_text: bool,
    as_json: bool,
    audit: str,
    dry_run: bool,
    calibrate: bool,
) -> int:
    """Replay traces with the cache off and on, compare, judge, and write a report.

    Without SUITE.toml and --preset, the quick preset runs: the shipped traces on the shipped model.
    """
    from dataclasses import replace

    from replaycheck.audit.labels import AuditMode
    from replaycheck.faults.fault import find_fault
    from replaycheck.replay.batches import WHOLE, Shard
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.stage import How
    from replaycheck.subjects.lab.kernels import KernelChoice

    for name in faults:
        find_fault(name)
    choice = KernelChoice(kernels, kernels_path, device, autotune)
    settings, warnings = resolve(suite, preset, traces, model, recipe, gates, faults, seed, choice, subject=subject)
    settings = replace(settings, audit=AuditMode(audit))
    say = Progress()
    for warning in warnings:
        say(f"warning: {warning}")
    how = How(workers, cluster, Shard.parse(shard) if shard else WHOLE)
    if dry_run:
        from replaycheck.replay.dry import dry_run as show

        click.echo(show(settings, how, calibrate))
        return 0
    from replaycheck.replay.run import run_shard, run_whole
    from replaycheck.report.privacy import mark_text
    from replaycheck.report.terminal import summary_text
    from replaycheck.report.write import write_all
    from replaycheck.traces.private import text_kind

    _interrupt_on_terminate()
    kind = text_kind(map(settings.groups.raw, range(len(settings.groups))))
    if shard:
        record = run_shard(settings, how, out, resume, say)
        mark_text(record, kind)
        (record.path / "log.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")
        click.echo(
            f"shard {how.shard} is in {record.path}; join all {how.shard.of} with: replaycheck merge DIR... --out DIR"
        )
        return 0
    record, result = run_whole(settings, how, out, resume, say)
    mark_text(record, kind)
    (record.path / "log.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")
    write_all(record.path, show_text)
    if as_json:
        options.emit_json(result.model_dump(mode="json"))
    else:
        click.echo(summary_text(result, record.path))
    return result.summary.exit_code


def _interrupt_on_terminate() -> None:
    """A scheduler that ends a job sends SIGTERM: the same end as Ctrl-C, workers included, and exit code 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
