"""The main job: settings in, a complete run directory out.

resolve → start-up check → parts over workers → probes → add up, judge, diagnose → result.json, report
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import torch

from replaycheck.diagnose.deeper import deeper
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.floor.beyond import beyond_floor
from replaycheck.floor.repeat import measure_repeat
from replaycheck.probes.collection import kernel_probes, state_probes
from replaycheck.probes.parallel import parallel_probes
from replaycheck.say import Say
from replaycheck.schema.floor import Measure
from replaycheck.schema.gaps import StateDtype
from replaycheck.schema.result import ProbeResult, Result
from replaycheck.subjects.choose import LAB, find_subject
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.kernels import OURS
from replaycheck.subjects.lab.pool import cast
from replaycheck.subjects.protocol import Translates
from replaycheck_kernels.providers.tuning import bound_autotuning

from .assemble import RunInfo
from .conclude import Deeper, Plan, conclude
from .environment import describe, finished
from .semantics import logprobs_of
from .settings import Settings
from .shards import write_shard
from .stage import How, batches_of, replay_missing
from .store import Run, create_run, groups_done, read_environment, write_json
from .worker import network, one_thread


def run(
    settings: Settings,
    out: Path | None = None,
    resume: Path | None = None,
    workers: int | None = None,
    say: Say = lambda line: None,
) -> tuple[Run, Result]:
    """Run on this machine, write everything but the rendered reports, and return where and what.

    Raises:
        UsageError: the folder can't be used. EngineEnvironmentError: this machine's bits depend on the batch.
    """
    return run_whole(settings, How(workers), out, resume, say)


def run_whole(
    settings: Settings, how: How, out: Path | None = None, resume: Path | None = None, say: Say = lambda line: None
) -> tuple[Run, Result]:
    """The same with any kind of worker; ``how.shard`` is everything."""
    done = _replayed(settings, how, out, resume, say)
    begin = process_time()
    result = conclude(
        done.run, plan_of(settings, done.notes), done.probes, _finds(settings, done.run, say), done.repeats
    )
    done.seconds["collect"] = process_time() - begin
    write_json(done.run.environment, finished(read_environment(done.run), done.seconds))
    return done.run, result


def _finds(settings: Settings, run: Run, say: Say) -> Deeper:
    """Who finds: what explains a failing exact cell, then what explains a difference beyond its floor."""
    return beyond_floor(settings, run, deeper(settings, run, say), say)


def run_shard(
    settings: Settings, how: How, out: Path | None = None, resume: Path | None = None, say: Say = lambda line: None
) -> Run:
    """Replay the parts of one shard, and write what ``merge`` needs. A shard judges nothing and has no result."""
    done = _replayed(settings, how, out, resume, say)
    parts = [batch.name for batch in batches_of(settings, how.shard)]
    write_shard(done.run, str(how.shard), plan_of(settings), done.probes, parts, done.repeats)
    write_json(done.run.environment, finished(read_environment(done.run), done.seconds))
    return done.run


@dataclass(frozen=True)
class _Replayed:
    """seconds: of the CPU, by stage. repeats: F_run."""

    run: Run
    seconds: dict[str, float]
    probes: tuple[ProbeResult, ...]
    repeats: tuple[Measure, ...]
    notes: tuple[str, ...] = ()  # of a run that was stopped early


def _replayed(settings: Settings, how: How, out: Path | None, resume: Path | None, say: Say) -> _Replayed:
    faults = [find_fault(name) for name in settings.faults]
    one_thread()
    if settings.subject == LAB:
        _start_lab(settings)
    inputs = settings.inputs() | ({} if how.shard.whole else {"shard": str(how.shard)})
    record = create_run(describe(inputs, settings.device, _device_name(settings.device)), out, resume)
    seconds = replay_missing(settings, record, how, say)
    begin = process_time()
    repeats = () if settings.floor else measure_repeat(settings, record, say)
    seconds["repeat"] = process_time() - begin
    notes = _stopped(settings, record, how)
    if settings.subject != LAB:
        return _Replayed(record, seconds, (), repeats, notes)
    say("probing stores and kernels")
    return _Replayed(record, seconds, run_probes(settings, faults), repeats, notes)


def _stopped(settings: Settings, run: Run, how: How) -> tuple[str, ...]:
    """What --fail-fast left out, if it did."""
    if how.watch is None or not how.watch.stopped:
        return ()
    done, every = len(groups_done(run)), len(batches_of(settings))
    return (f"stopped after {done} of {every} parts by --fail-fast: {how.watch.stopped}",)


def _start_lab(settings: Settings) -> None:
    if settings.kernels.spec != OURS and settings.device != "cpu":
        bound_autotuning(settings.kernels.autotune)
    model = network(settings.model, settings.recipe, settings.kernels)
    check_invariance(model, dict.fromkeys(arm.rollback for arm in settings.arms if arm.rollback))


def _device_name(device: str) -> str | None:
    return None if device == "cpu" else str(torch.cuda.get_device_name(device))


def run_probes(settings: Settings, faults: Sequence[Fault]) -> tuple[ProbeResult, ...]:
    """The probes with the run's faults planted."""
    store = next((fault.cast for fault in faults if fault.cast), cast)
    spoil = next((fault.recipe for fault in faults if fault.recipe), None)
    shards = next((fault.shards for fault in faults if fault.shards), None)
    model = network(settings.model, settings.recipe, settings.kernels)
    return (
        # They take the states after the longest prompt, so its group is enough.
        *state_probes(model, (settings.groups.with_longest_prompt(),), store),
        *kernel_probes(settings.model, settings.recipe, settings.kernels, settings.seed, spoil),
        *parallel_probes(settings.model, settings.recipe, settings.kernels, _degrees(settings), shards),
    )


def _degrees(settings: Settings) -> list[int]:
    """Degrees of the arms that are probed; gates that read the probe have it at two ranks, whatever the arms are."""
    metrics = {gate.metric for loaded in settings.gates for gate in loaded.gates.gate}
    read = {2} if metrics & {"shard-mismatches", "sum-of-bound"} else set()
    return sorted(read | {arm.tensor_parallel for arm in settings.arms if arm.tensor_parallel > 1})


def _said_of(settings: Settings) -> tuple[str, ...]:
    """What another subject can't show, and how traces become its prompts."""
    if settings.subject == LAB:
        return ()
    found = find_subject(settings.subject, settings.options)
    how = (found.translate(settings.groups.parse(0)).how,) if isinstance(found, Translates) else ()
    return (*how, *(f"not seen: {sentence}" for sentence in found.describe().not_seen))


def _state_dtype(settings: Settings) -> StateDtype | None:
    if settings.subject == LAB:
        return None
    found = find_subject(settings.subject, settings.options).describe()
    return None if found.asked is None else StateDtype(asked=found.asked, in_use=found.pool)


def plan_of(settings: Settings, notes: Sequence[str] = ()) -> Plan:
    """What the run is to find out; ``notes``: what it left out beside what was left out beforehand."""
    info = RunInfo(
        suite=settings.suite.name,
        suite_digest=settings.suite_digest,
        subject=settings.subject,
        model=settings.model.resolve().name if settings.subject == LAB else settings.subject,
        model_digest=settings.model_digest,
        recipe=settings.recipe,
        kernels=settings.label,
        device=settings.device,
        seed=settings.seed,
        faults=settings.faults,
        not_checked=settings.not_checked,
        notes=(*settings.notes, *_said_of(settings), *notes),
        logprobs=logprobs_of(settings),
        state_dtype=_state_dtype(settings),
    )
    return Plan(info, settings.arms, settings.cells, settings.gates, settings.reproduce, settings.floor)
