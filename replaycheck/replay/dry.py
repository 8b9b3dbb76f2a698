"""``run --dry-run``: who computes what, and what it will take, from compiled schedules and one measured group."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time

from replaycheck.report.verdict import not_checked
from replaycheck.say import Say
from replaycheck.schedule.compile import compile_arms
from replaycheck.schedule.steps import Compute, Schedule
from replaycheck.text import aligned

from .settings import Settings
from .stage import How, batches_of, work_of, workers_of
from .worker import Job, one_thread, replay_jobs

__all__ = ["calibrated", "dry_run"]

SAMPLE = 50
"""Groups that are compiled to count tokens; of more groups every k-th, and totals are scaled."""

MEASURED = 50
"""Groups that are replayed at most to calibrate; one is enough for the lab."""

_HEAD = ("arm", "history", "tail", "answer", "answers", "pool", "checkpoints", "hits", "tokens")


@dataclass(frozen=True)
class _Count:
    """What the arms of some groups do, by arm, and tokens of all arms by group; scale: all groups over these."""

    hits: list[int]
    tokens: list[int]
    of_group: dict[int, int]
    scale: float


def dry_run(settings: Settings, how: How, calibrate: bool = True, say: Say = lambda line: None) -> str:
    """One line an arm: kernels, how answers entered the state, pool, policy, expected hits, tokens to compute. Then totals.

    Args:
        calibrate: replay the groups with the fewest tokens for half a second, to say how long the run will take.
    """
    count = _count(settings)
    if calibrate:
        say("replaying the smallest group, to say what a run takes; --no-calibrate leaves it out")
    rows = [_HEAD, *(_row(settings, index, count) for index in range(len(settings.arms)))]
    lines = aligned(rows)
    lines.append(
        f"{len(settings.groups):,} groups, {len(settings.arms)} arms, {len(settings.cells)} cells; "
        f"{_scaled(sum(count.tokens), count)} tokens, {sum(settings.groups.scored) * len(settings.arms):,} observations"
    )
    lines.append(f"kernels {settings.label}, recipe {settings.recipe}, {settings.device}")
    lines += _expected(settings, how, count) if calibrate else []
    return "\n".join([*lines, *not_checked(settings.not_checked)])


def _count(settings: Settings) -> _Count:
    step = max(1, len(settings.groups) // SAMPLE)
    hits, tokens = [0] * len(settings.arms), [0] * len(settings.arms)
    of_group = dict.fromkeys(range(0, len(settings.groups), step), 0)
    for index in of_group:
        for arm, schedule in enumerate(compile_arms(settings.groups.parse(index), settings.arms)):
            hits[arm] += schedule.expected_hits
            tokens[arm] += _tokens(schedule)
            of_group[index] += _tokens(schedule)
    return _Count(hits, tokens, of_group, len(settings.groups) / len(of_group))


def _tokens(schedule: Schedule) -> int:
    rows = [row for step in schedule.steps if isinstance(step, Compute) for row in step.rows]
    return sum(row.b - row.a for row in rows)


def _scaled(number: int, count: _Count) -> str:
    """A total; of a sample it is an estimate, which the sign says."""
    return f"{number:,}" if count.scale == 1 else f"≈{number * count.scale:,.0f}"


def _row(settings: Settings, index: int, count: _Count) -> tuple[str, ...]:
    arm = settings.arms[index]
    return (
        f"{arm.compiler}, {arm.tensor_parallel} ranks" if arm.tensor_parallel > 1 else str(arm.compiler),
        str(arm.history),
        str(arm.tail),
        f"{arm.answer}, {arm.rollback}" if arm.rollback else str(arm.answer),
        str(arm.answers),
        str(arm.pool),
        arm.policy.slug,
        _scaled(count.hits[index], count),
        _scaled(count.tokens[index], count),
    )


def _expected(settings: Settings, how: How, count: _Count) -> Sequence[str]:
    """Time by tokens that arms compute, calibrated on one group; memory as that group took it."""
    spent, done = _calibrate(settings, count.of_group)
    measured = sum(count.of_group[index] for index in done)
    workers = workers_of(how, len(batches_of(settings, how.shard)))
    seconds = spent * sum(count.tokens) * count.scale / measured / how.shard.of
    # ru_maxrss is in KiB, on macOS in bytes.
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return (
        f"expected: {seconds:,.0f} CPU seconds of replay, {seconds / workers:,.0f} s with {workers} workers, "
        f"{held * (workers + (workers > 1)) / 2**30:.1f} GiB",
        f"calibrated on the {len(done)} smallest groups: {spent:.2f} CPU s for {measured:,} tokens under "
        f"{len(settings.arms)} arms. Short groups fill passes badly, so this is too much rather than too little.",
    )


def calibrated(settings: Settings) -> tuple[float, list[int]]:
    """CPU seconds a token of prompts and answers under all arms, and these tokens by group."""
    groups = settings.groups
    costs = [prompt + scored for prompt, scored in zip(groups.prompts, groups.scored, strict=True)]
    spent, done = _calibrate(settings, dict(enumerate(costs)))
    return spent / sum(costs[index] for index in done), costs


def _calibrate(settings: Settings, costs: Mapping[int, int]) -> tuple[float, list[int]]:
    """CPU seconds, and the groups that were replayed: the smallest ones, until half a second is spent.

    One arm goes before, which loads the model and the compiled kernels: a run does that once. One thread, as workers have:
    on a busy machine two wait for each other.
    """
    one_thread()
    done: list[int] = []
    order = sorted(costs, key=costs.__getitem__)[:MEASURED]
    work = work_of(settings)
    replay_jobs(replace(work, arms=work.arms[:1], cells=()), [Job("start", (settings.groups.raw(order[0]),))])
    begin = process_time()
    for index in order:
        replay_jobs(work, [Job("calibration", (settings.groups.raw(index),))])
        done.append(index)
        if process_time() - begin > 0.5:
            break
    return process_time() - begin, done
