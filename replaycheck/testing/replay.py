"""Conversations through the lab on somebody's kernels, with the state cached and not, judged by gates."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from replaycheck.assets import suite_file
from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.replay.run import run
from replaycheck.replay.settings import Settings, resolve
from replaycheck.schema.result import Result
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.testing.failure import replay_failure
from replaycheck.testing.given import named
from replaycheck.testing.kernels import AnyKernel, provided
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import find_traces, parse_suite
from replaycheck.traces.write import write_groups
from replaycheck_kernels.providers import Capabilities, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.recipe import preset as recipe_named
from replaycheck_kernels.registry import ours

__all__ = ["SMALL_GROUPS", "assert_replay_consistent"]

SMALL_GROUPS = ("one_token_and_full_hit", "edges_64")
"""Of the suite quick: prompts of one token and full hits, and prompts that end one token round every chunk boundary."""

PRESET = "kernel"
PICKED = "picked.jsonl"
"""The groups that were asked for, in the folder of a run."""


def assert_replay_consistent(
    kernels: str | Provider | AnyKernel = "ours",
    recipe: str | None = None,
    *,
    form: Literal["chunk", "recurrent"] = "chunk",
    sources: Collection[str] = ("final",),
    suite: Path | None = None,
    preset: str | None = None,
    groups: Collection[str] | None = None,
    traces: Sequence[str] = (),
    gates: Sequence[str] = (),
    faults: Sequence[str] = (),
    model: Path | None = None,
    device: str = "cpu",
    seed: int = 0,
    explain: bool = False,
    out: Path | None = None,
) -> Result:
    """Replay conversations with the state cached and not, and fail unless every gate passes.

    Args:
        kernels: what ``--kernels`` takes (``ours``, ``fla``, ``pkg.mod:factory``), a Provider, or one kernel: ours computes
            the other form then. ``form`` and ``sources`` describe a function, as in :func:`assert_kernel`.
        recipe: None for the one that the kernels claim, or the suite's.
        suite, preset: what to run; without both the preset ``kernel``, on two groups.
        groups: names of groups of the suite's traces; an empty one takes all.
        traces, gates, faults, model: as on the command line.
        explain: run a failing case again, step by step, to name the operation.
        out: keep the run here; it is thrown away otherwise.

    Raises:
        AssertionError: for the first failed gate what share of elements differs, the worst one with its index and both
            values, what is allowed; then the other gates, the seed, and how to repeat it.
        UsageError: a name that isn't there, or kernels that the lab can't run.
    """
    with _folder() as folder, _spec(kernels, recipe, form, sources, device) as spec:
        chosen = _traces(folder, suite, preset, groups, traces)
        settings, _ = resolve(
            suite,
            None if suite else preset or PRESET,
            chosen,
            model,
            recipe,
            gates,
            faults,
            seed,
            KernelChoice(spec, device=device),
        )
        settings = replace(settings, explain=explain)
        record, result = run(settings, out or folder / "run", workers=1)
        if result.summary.verdict != "pass":
            command = _command(settings, folder) if isinstance(kernels, str) else ""
            raise AssertionError(replay_failure(record, result, command))
    return result


@contextmanager
def _folder() -> Iterator[Path]:
    """For a run that nobody keeps, and for traces that were picked."""
    with TemporaryDirectory(prefix="replaycheck-test-") as folder:
        yield Path(folder)


def _traces(
    folder: Path, suite: Path | None, preset: str | None, groups: Collection[str] | None, traces: Sequence[str]
) -> Sequence[str]:
    """The traces to take; nothing for the suite's own."""
    if groups is None:
        groups = () if suite or preset or traces else SMALL_GROUPS
    if not groups:
        return traces
    path = suite or suite_file(preset or PRESET)
    files = find_traces(traces) if traces else find_traces(parse_suite(path).traces, path)
    found = {group.group: group for file in files for group in read_groups(file)}
    for name in groups:
        if name not in found:
            raise UsageError(f"there is no group {name!r}{did_you_mean(name, found)}; choose {choices(found)}")
    picked = folder / PICKED
    write_groups(picked, [group for name, group in found.items() if name in groups])
    return (str(picked),)


@contextmanager
def _spec(
    kernels: str | Provider | AnyKernel, recipe: str | None, form: str, sources: Collection[str], device: str
) -> Iterator[str]:
    """``kernels`` as the text that a run takes."""
    if isinstance(kernels, str):
        yield kernels
        return
    provider = kernels if isinstance(kernels, Provider) else _completed(kernels, recipe, form, sources, device)
    with named(provider) as spec:
        yield spec


def _completed(kernel: AnyKernel, recipe: str | None, form: str, sources: Collection[str], device: str) -> Provider:
    """A provider of one kernel, and of ours for the other form, under the same recipe."""
    claimed = recipe or (next(iter(kernel.can.claims), None) if isinstance(kernel, ProviderKernel) else None)
    if claimed is None:
        raise UsageError("a kernel that claims no recipe was given; say with recipe=NAME what it computes")
    mine = provided(kernel, claimed, ModelKind.KDA, form, sources, None)
    devices = frozenset({"cpu", "cuda"})
    others = [
        ProviderKernel(ModelKind.KDA, each, Capabilities((claimed,), devices=devices))
        for name, each in ours(recipe_named(claimed), device).items()
        if name != mine.kernel.form
    ]
    return Provider("yours", (mine, *others))


def _command(settings: Settings, folder: Path) -> str:
    """The command line, with all groups of the suite instead of a file of picked ones that will be gone."""
    return settings.reproduce.replace(f" --traces {shlex.quote(str(folder / PICKED))}", "")
