"""``replaycheck run``: the main job."""

from __future__ import annotations

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
@options.out_option
@options.resume_option
@options.json_option
@click.option("--dry-run", is_flag=True, help="Print who computes what in each arm, and run nothing.")
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
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Replay traces with the cache off and on, compare, judge, and write a report.

    Without SUITE.toml and --preset, the quick preset runs: the shipped traces on the shipped model.
    """
    from replaycheck.faults.fault import find_fault
    from replaycheck.replay.settings import resolve
    from replaycheck.subjects.lab.kernels import KernelChoice

    for name in faults:
        find_fault(name)
    choice = KernelChoice(kernels, kernels_path, device, autotune)
    settings, warnings = resolve(suite, preset, traces, model, recipe, gates, faults, seed, choice)
    say = Progress()
    for warning in warnings:
        say(f"warning: {warning}")
    if dry_run:
        from replaycheck.replay.dry import arm_table

        click.echo(arm_table(settings))
        return 0
    from replaycheck.replay.run import run
    from replaycheck.report.terminal import summary_text
    from replaycheck.report.write import write_all

    record, result = run(settings, out, resume, workers, say)
    (record.path / "log.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")
    write_all(record.path)
    if as_json:
        options.emit_json(result.model_dump(mode="json"))
    else:
        click.echo(summary_text(result, record.path))
    return result.summary.exit_code
