"""``replaycheck probe``: model-free checks of kernels and of state operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli import options
from replaycheck.errors import ExitCode

if TYPE_CHECKING:
    from replaycheck.schema.result import ProbeResult

__all__ = ["command"]


@click.group(epilog=options.example("replaycheck probe kernels", "replaycheck probe state --json"))
def command() -> None:
    """Check kernels and state operations exactly, without traces."""


@command.command(
    epilog=options.example(
        "replaycheck probe kernels",
        "replaycheck probe kernels --kernels ours --only chunk --recipe vllm --json",
        "replaycheck probe kernels --kernels fla --device cuda --workers 8 --out reports/fla",
    )
)
@options.kernels_option
@options.kernels_path_option
@click.option("--only", multiple=True, metavar="PART", help="Kernels with PART in their name; repeatable.")
@options.recipe_option
@options.model_option
@options.seed_option
@options.device_option
@options.workers_option
@click.option(
    "--autotune",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="N",
    help="Let Triton time at most N configurations a kernel on a GPU; 0: all. The choice changes bits.",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="For one kernel. [default: 900 on a CPU, 240 on a GPU]",
)
@click.option("--total", type=click.FloatRange(min=1), metavar="SECONDS", help="For all kernels. [default: no limit]")
@options.fault_option
@options.out_option
@options.json_option
def kernels(
    specs: tuple[str, ...],
    kernels_path: Path | None,
    only: tuple[str, ...],
    recipe: str | None,
    model: Path | None,
    seed: int,
    device: str,
    workers: int | None,
    autotune: int,
    limit: float | None,
    total: float | None,
    faults: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> int:
    """Kernels of providers against float64 and against themselves: a table of kernels and properties.

    Each cell is exact, noise with a number, broken with the smallest example, or can't. --fault plants a recipe fault in
    our kernels; kernels that claim a recipe run that one, whatever --recipe says.
    """
    from replaycheck.cli.progress import Progress
    from replaycheck.faults.fault import find_fault
    from replaycheck.probes.command import probe_kernels
    from replaycheck.probes.table import Request, default_workers
    from replaycheck.replay.settings import resolve
    from replaycheck.report.probe_text import probe_text

    settings, _ = resolve(model=model, recipe=recipe, seed=seed, admitted=False)
    spoil = next((fault.recipe for fault in map(find_fault, faults) if fault.recipe), None)
    request = Request(
        specs or ("ours",),
        kernels_path,
        device,
        only,
        settings.recipe,
        seed,
        spoil=spoil,
        autotune=autotune,
        workers=workers or default_workers(),
        limit=limit,
        total=total,
    )
    table, times = probe_kernels(request, settings.model, settings.groups, out, Progress())
    if as_json:
        options.emit_json(table.model_dump(mode="json"))
    else:
        _print(table.probes)
        click.echo(probe_text(table, times), nl=False)
    failed = table.broken or any(probe.verdict == "fail" for probe in table.probes)
    return ExitCode.FAIL if failed else ExitCode.PASS


@command.command(epilog=options.example("replaycheck probe state --fault via-bf16"))
@options.recipe_option
@options.model_option
@options.device_option
@options.fault_option
@options.json_option
def state(recipe: str | None, model: Path | None, device: str, faults: tuple[str, ...], as_json: bool) -> int:
    """Stores of states: one direct cast, or more?"""
    from replaycheck.faults.fault import find_fault
    from replaycheck.probes.collection import state_probes
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.worker import network, one_thread
    from replaycheck.subjects.lab.kernels import KernelChoice
    from replaycheck.subjects.lab.pool import cast

    settings, _ = resolve(model=model, recipe=recipe, kernels=KernelChoice(device=device), admitted=False)
    one_thread()
    store = next((fault.cast for fault in map(find_fault, faults) if fault.cast), cast)
    lab = network(settings.model, settings.recipe, settings.kernels)
    return _show(list(state_probes(lab, settings.groups, store)), as_json)


def _show(probes: Sequence[ProbeResult], as_json: bool) -> int:
    if as_json:
        options.emit_json({"probes": [probe.model_dump(mode="json") for probe in probes]})
    else:
        _print(probes)
    return ExitCode.FAIL if any(probe.verdict == "fail" for probe in probes) else ExitCode.PASS


def _print(probes: Sequence[ProbeResult]) -> None:
    for probe in probes:
        click.echo(f"{probe.verdict.upper():5} {probe.name}\n      {probe.sentence}")
