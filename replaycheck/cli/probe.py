"""``replaycheck probe``: model-free checks of kernels and of state operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from replaycheck.autotuning import PROBED
from replaycheck.cli import options
from replaycheck.cli.lazy import VerbGroup
from replaycheck.errors import ExitCode

if TYPE_CHECKING:
    from replaycheck.schema.result import ProbeResult

__all__ = ["command"]


@click.group(
    cls=VerbGroup,
    epilog=options.example(
        "replaycheck probe kernels", "replaycheck probe state --json", "replaycheck probe architectures"
    ),
)
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
@options.autotune_option(PROBED)
@click.option(
    "--limit",
    type=options.FiniteRange(min=1),
    metavar="SECONDS",
    help="For one kernel. [default: 900 on a CPU, 240 on a GPU]",
)
@click.option(
    "--total", type=options.FiniteRange(min=1), metavar="SECONDS", help="For all kernels. [default: no limit]"
)
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


@command.command(
    epilog=options.example(
        "replaycheck probe state",
        "replaycheck probe state --only cache --only rollback --json",
        "replaycheck probe state --fault via-bf16",
    )
)
@click.option("--only", multiple=True, metavar="PART", help="Rows with PART in their name; repeatable.")
@options.recipe_option
@options.model_option
@options.seed_option
@options.device_option
@options.fault_option
@options.json_option
def state(
    only: tuple[str, ...],
    recipe: str | None,
    model: Path | None,
    seed: int,
    device: str,
    faults: tuple[str, ...],
    as_json: bool,
) -> int:
    """Every operation on states that must be exact: a row each, exact, broken with the smallest example, or can't.

    Copies, the pool's rules, convolutions, stores, forks, plans, prefix caches, rollback of drafts, and small groups through
    the whole model, warm against split-rounded. The model's states (--model) are read for the row double-rounding only.
    """
    from replaycheck.cli.progress import Progress
    from replaycheck.faults.fault import find_fault
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.worker import one_thread
    from replaycheck.report.state_text import state_text
    from replaycheck.state_probes.checks import probe_state
    from replaycheck.state_probes.subject import Subject
    from replaycheck.subjects.lab.kernels import KernelChoice
    from replaycheck_kernels.recipe import preset

    planted = [find_fault(name) for name in faults]
    settings, _ = resolve(model=model, recipe=recipe, seed=seed, kernels=KernelChoice(device=device), admitted=False)
    one_thread()
    subject = Subject(device, preset(settings.recipe), seed, settings.model, settings.groups, only=only)
    table = probe_state(subject, planted, Progress())
    if as_json:
        options.emit_json(table.model_dump(mode="json"))
    else:
        click.echo(state_text(table), nl=False)
    return ExitCode.FAIL if table.broken else ExitCode.PASS


@command.command(
    epilog=options.example(
        "replaycheck probe architectures --architecture lfm2 --only pieces",
        "replaycheck probe architectures --architecture all --out reports/architectures",
        "replaycheck probe architectures --architecture mamba2 --architecture bamba --dtype bf16 --json",
    )
)
@click.option(
    "--architecture",
    "names",
    multiple=True,
    metavar="NAME",
    help="A model_type of transformers, or all: each with a recurrent or convolutional state, and controls. [default: all]",
)
@click.option("--only", multiple=True, metavar="PART", help="Operations with PART in their name; repeatable.")
@click.option("--dtype", type=click.Choice(["fp32", "bf16"]), default="fp32", show_default=True, help="Of the models.")
@options.seed_option
@options.workers_option
@options.out_option
@options.json_option
def architectures(
    names: tuple[str, ...],
    only: tuple[str, ...],
    dtype: Literal["fp32", "bf16"],
    seed: int,
    workers: int | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """The installed transformers' architectures against themselves: their cache's operations and the uncached forward.

    Tiny random models, made here; nothing is downloaded. Each cell is exact, noise, a fault with its size and first wrong
    token, refused by the library, or crashed. With --out, faults/ holds a program for each fault. Needs the extra [models].
    """
    from replaycheck.architectures.command import probe_architectures
    from replaycheck.architectures.sweep import Request
    from replaycheck.cli.progress import Progress
    from replaycheck.probes.table import default_workers
    from replaycheck.report.architectures_text import architectures_text

    request = Request(names, dtype, only, seed, workers or default_workers())
    table = probe_architectures(request, out, Progress())
    if as_json:
        options.emit_json(table.model_dump(mode="json"))
    else:
        click.echo(architectures_text(table), nl=False)
    return ExitCode.FAIL if table.found("fault") else ExitCode.PASS


def _print(probes: Sequence[ProbeResult]) -> None:
    for probe in probes:
        click.echo(f"{probe.verdict.upper():5} {probe.name}\n      {probe.sentence}")
