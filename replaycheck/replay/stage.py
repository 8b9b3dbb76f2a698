"""The replay stage: the parts that a run doesn't have yet, over whatever does the work, each stored when it is ready."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic, process_time

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.say import Say
from replaycheck.subjects.choose import LAB, find_subject

from .batches import WHOLE, Batch, Shard, plan_batches
from .cluster import replay_on_cluster
from .early import Watch
from .pool import default_workers, replay_all
from .settings import Settings
from .store import Run, groups_done, write_done
from .worker import Done, Job, Work

__all__ = ["How", "batches_of", "replay_missing", "work_of", "workers_of"]


LAB_VOCABULARY = 144
"""Logits of a position in the lab, whatever the model's padding: those of the traces' vocabulary."""

EVERY = 10.0
"""Seconds between two lines of progress; the first and the last part always have one."""


@dataclass(frozen=True)
class How:
    """What does the work: processes of this machine, or a Ray cluster. shard: the parts that are this run's."""

    workers: int | None = None
    cluster: str | None = None
    shard: Shard = WHOLE
    watch: Watch | None = None  # with --fail-fast


def work_of(settings: Settings) -> Work:
    """What a worker does with each group."""
    s = settings
    return Work(
        s.arms,
        s.cells,
        s.model,
        s.recipe,
        s.faults,
        s.kernels,
        s.audit,
        subject=s.subject,
        options=s.options,
        experiments=s.suite.experiments,
    )


def batches_of(settings: Settings, shard: Shard = WHOLE) -> tuple[Batch, ...]:
    """The parts of a run, or of a shard of it."""
    other = None if settings.subject == LAB else find_subject(settings.subject, settings.options).describe()
    vocabulary = LAB_VOCABULARY if other is None else other.vocabulary
    experiments = len(settings.suite.experiments)
    return plan_batches(settings.groups, len(settings.arms) * experiments, vocabulary, shard)


def replay_missing(settings: Settings, run: Run, how: How, say: Say) -> dict[str, float]:
    """Replay and store; returns CPU seconds by what they were spent on, of all processes.

    Raises:
        EngineEnvironmentError: workers or an engine died; what is done is stored, and the message says how to go on.
    """
    how = _alone(settings, how)
    done = groups_done(run)
    missing = [batch for batch in batches_of(settings, how.shard) if batch.name not in done]
    # The largest first, so that the last ones to be ready are small and no worker waits long for another.
    batches = sorted(missing, key=lambda batch: batch.weight, reverse=True)
    progress = _Progress(batches, say)
    say(f"{_amount(settings, batches, how)}; {_who(how, len(batches))}")
    seconds: dict[str, float] = {}
    begin = process_time()
    parts = _saving(run, _replay(settings, batches, how, say))
    for ready in parts:
        write_done(run, ready.record, ready.tables)
        for what, spent in ready.seconds.items():
            seconds[what] = seconds.get(what, 0.0) + spent
        progress.step(ready.record.group)
        if how.watch is not None and how.watch.fails(ready):
            say(f"--fail-fast: {how.watch.stopped}")
            parts.close()  # workers end, too
            break
    # With one worker the stages were in this process; what is left of its time is writing.
    here = sum(seconds.values()) if workers_of(how, len(batches)) == 1 and not how.cluster else 0.0
    seconds["write"] = max(0.0, process_time() - begin - here)
    return seconds


def _alone(settings: Settings, how: How) -> How:
    """One worker for a subject that only one process may use at a time, such as a server, which has one cache."""
    if settings.subject == LAB or find_subject(settings.subject, settings.options).describe().parallel:
        return how
    if how.cluster or not how.shard.whole:
        raise UsageError(
            f"--subject {settings.subject}: it is used by one process at a time; leave --cluster and --shard out"
        )
    return replace(how, workers=1)


def _saving(run: Run, parts: Iterator[Done]) -> Generator[Done]:
    """The parts; if an engine dies, the error says what is saved."""
    try:
        yield from parts
    except EngineEnvironmentError as error:
        saved = len(groups_done(run))
        raise EngineEnvironmentError(
            f"{error}; {saved} parts are saved in {run.path}, go on with --resume {run.path} when it is up again"
        ) from None


def _replay(settings: Settings, batches: Sequence[Batch], how: How, say: Say) -> Iterator[Done]:
    jobs = (_job(settings, batch) for batch in batches)
    if not batches:
        return iter(())
    if how.cluster:
        return replay_on_cluster(how.cluster, work_of(settings), settings.model_digest, jobs, say)
    return replay_all(work_of(settings), jobs, workers_of(how, len(batches)), say)


def _job(settings: Settings, batch: Batch) -> Job:
    return Job(batch.name, tuple(settings.groups.raw(index) for index in range(batch.first, batch.last)))


def workers_of(how: How, batches: int) -> int:
    """Worker processes; never more than there are parts."""
    return max(1, min(how.workers, batches)) if how.workers else default_workers(batches)


def _who(how: How, batches: int) -> str:
    return f"cluster {how.cluster}" if how.cluster else f"{workers_of(how, batches)} workers"


def _amount(settings: Settings, batches: Sequence[Batch], how: How) -> str:
    groups = sum(batch.last - batch.first for batch in batches)
    shard = "" if how.shard.whole else f", shard {how.shard}"
    parts = "" if len(batches) == groups else f" in {len(batches):,} parts"
    return f"{groups:,} groups{parts}{shard}, {len(settings.arms)} arms, {len(settings.cells)} cells"


class _Progress:
    """Lines that say how far it is and how long it still takes, by observations: groups differ in size."""

    def __init__(self, batches: Sequence[Batch], say: Say) -> None:
        self._weights = {batch.name: (max(1, batch.weight), batch.last - batch.first) for batch in batches}
        self._all, self._groups = (sum(each[i] for each in self._weights.values()) for i in (0, 1))
        self._say = say
        self._weight = self._ready = 0
        self._began = self._said = monotonic()

    def step(self, name: str) -> None:
        """A part is stored."""
        weight, groups = self._weights[name]
        first = not self._ready
        self._weight += weight
        self._ready += groups
        now = monotonic()
        if first or self._ready == self._groups or now - self._said >= EVERY:
            self._said = now
            spent = now - self._began
            left = spent * (self._all - self._weight) / self._weight
            self._say(f"{self._ready:,} of {self._groups:,} groups ({name}), {spent:.0f} s, about {left:.0f} s left")
