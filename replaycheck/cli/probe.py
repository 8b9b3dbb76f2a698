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


@command.command(epilog=options.example("replaycheck probe kernels --recipe sglang"))
@options.recipe_option
@options.model_option
@options.seed_option
@options.device_option
@options.fault_option
@options.json_option
def kernels(
    recipe: str | None, model: Path | None, seed: int, device: str, faults: tuple[str, ...], as_json: bool
) -> int:
    """Our kernels against the float64 oracle: is the error what the recipe predicts?"""
    from replaycheck.faults.fault import find_fault
    from replaycheck.probes.collection import kernel_probes
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.worker import one_thread

    settings, _ = resolve(model=model, recipe=recipe, seed=seed, device=device, admitted=False)
    one_thread()
    spoil = next((fault.recipe for fault in map(find_fault, faults) if fault.recipe), None)
    return _show(list(kernel_probes(settings.model, settings.recipe, seed, spoil)), as_json)


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
    from replaycheck.subjects.lab.pool import cast

    settings, _ = resolve(model=model, recipe=recipe, device=device, admitted=False)
    one_thread()
    store = next((fault.cast for fault in map(find_fault, faults) if fault.cast), cast)
    return _show(list(state_probes(network(settings.model, settings.recipe), settings.groups, store)), as_json)


def _show(probes: Sequence[ProbeResult], as_json: bool) -> int:
    failed = any(probe.verdict == "fail" for probe in probes)
    if as_json:
        options.emit_json({"probes": [probe.model_dump(mode="json") for probe in probes]})
    else:
        for probe in probes:
            click.echo(f"{probe.verdict.upper():5} {probe.name}\n      {probe.sentence}")
    return ExitCode.FAIL if failed else ExitCode.PASS
