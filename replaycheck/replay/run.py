"""The main job: settings in, a complete run directory out.

resolve → start-up check → groups over workers → probes → collect, judge, diagnose → result.json, report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

import pandas as pd
import torch

from replaycheck.diagnose.findings import Evidence, findings
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.probes.collection import kernel_probes, state_probes
from replaycheck.schema.result import Finding, ProbeResult, Result
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.kernels import OURS
from replaycheck.subjects.lab.pool import cast
from replaycheck_kernels.providers.tuning import bound_autotuning

from .assemble import RunInfo, assemble, collect, finish
from .environment import describe, finished
from .pool import default_workers, replay_all
from .settings import Settings
from .store import Run, create_run, groups_done, read_environment, write_group, write_json
from .worker import Task, network, one_thread

Say = Callable[[str], None]


def run(
    settings: Settings,
    out: Path | None = None,
    resume: Path | None = None,
    workers: int | None = None,
    say: Say = lambda line: None,
) -> tuple[Run, Result]:
    """Run, write everything but the rendered reports, and return where and what.

    Raises:
        UsageError: the folder can't be used. EngineEnvironmentError: this machine's bits depend on the batch.
    """
    faults = [find_fault(name) for name in settings.faults]
    one_thread()
    if settings.kernels.spec != OURS and settings.device != "cpu":
        bound_autotuning(settings.kernels.autotune)
    model = network(settings.model, settings.recipe, settings.kernels)
    check_invariance(model, dict.fromkeys(arm.rollback for arm in settings.arms if arm.rollback))
    record = create_run(describe(settings.inputs(), settings.device, _device_name(settings.device)), out, resume)
    _replay(settings, record, workers, say)
    say("probing stores and kernels")
    probes = run_probes(settings, faults)
    collected = collect(record, settings.arms, settings.cells)
    result = assemble(_info(settings), settings.cells, collected, probes, settings.gates, diagnosis(settings))
    finish(record, collected, result)
    write_json(record.environment, finished(read_environment(record)))
    return record, result


def _replay(settings: Settings, record: Run, workers: int | None, say: Say) -> None:
    """Replay the groups that aren't done, and store each as soon as it is ready."""
    done = groups_done(record)
    tasks = [task(settings, i) for i, group in enumerate(settings.groups) if group.group not in done]
    count = workers or default_workers(len(tasks))
    say(f"{len(tasks)} groups, {len(settings.arms)} arms, {len(settings.cells)} cells; {count} workers")
    started = monotonic()
    for ready, comparison in enumerate(replay_all(tasks, count), 1):
        write_group(record, comparison.tables, comparison.record)
        spent = monotonic() - started
        left = spent / ready * (len(tasks) - ready)
        say(f"{ready} of {len(tasks)} groups ({comparison.record.group}), {spent:.0f} s, about {left:.0f} s left")


def task(settings: Settings, index: int) -> Task:
    """The work of one group."""
    s = settings
    return Task(s.groups[index], s.arms, s.cells, s.model, s.recipe, s.faults, s.kernels)


def _device_name(device: str) -> str | None:
    return None if device == "cpu" else str(torch.cuda.get_device_name(device))


def run_probes(settings: Settings, faults: Sequence[Fault]) -> tuple[ProbeResult, ...]:
    """The probes with the run's faults planted."""
    store = next((fault.cast for fault in faults if fault.cast), cast)
    spoil = next((fault.recipe for fault in faults if fault.recipe), None)
    model = network(settings.model, settings.recipe, settings.kernels)
    return (
        *state_probes(model, settings.groups, store),
        *kernel_probes(settings.model, settings.recipe, settings.kernels, settings.seed, spoil),
    )


def _info(settings: Settings) -> RunInfo:
    return RunInfo(
        suite=settings.suite.name,
        suite_digest=settings.suite_digest,
        subject="lab",
        model=settings.model.resolve().name,
        model_digest=settings.model_digest,
        recipe=settings.recipe,
        kernels=settings.label,
        device=settings.device,
        seed=settings.seed,
        faults=settings.faults,
        not_checked=settings.not_checked,
    )


def diagnosis(settings: Settings) -> Callable[[Result, pd.DataFrame], tuple[Finding, ...]]:
    """Diagnosis with the command that repeats this run."""

    def find(result: Result, restores: pd.DataFrame) -> tuple[Finding, ...]:
        parts = (result.arms, result.cells, result.probes, result.audits, result.gates)
        return findings(Evidence(*parts, restores, settings.reproduce))

    return find
