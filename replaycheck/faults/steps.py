"""Tools of plan faults: find steps, change rows and snapshots, and leave a plan alone that has nothing to spoil."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replaycheck.schedule.steps import Compute, Copy, CopyReason, Free, Row, Schedule, Snapshot, Step

__all__ = [
    "ScheduleFault",
    "Steps",
    "copies",
    "first",
    "last",
    "map_rows",
    "map_snapshots",
    "on_steps",
    "unpoisoned",
    "with_rows",
]

Steps = list[Step]
Wanted = Callable[[Step], bool]
ScheduleFault = Callable[[Schedule], Schedule]


def on_steps(change: Callable[[Steps], Steps]) -> ScheduleFault:
    """A fault of a list of steps; a schedule without the step that it looks for stays as it is."""

    def fault(schedule: Schedule) -> Schedule:
        try:
            return replace(schedule, steps=tuple(change(list(schedule.steps))))
        except (StopIteration, ValueError, IndexError):
            return schedule

    return fault


def unpoisoned(change: Callable[[Steps], Steps]) -> Callable[[Steps], Steps]:
    """The fault in an engine that leaves freed slots as they are: the pool poisons them, so what is freed isn't here."""

    def spoil(steps: Steps) -> Steps:
        return [step for step in change(steps) if not isinstance(step, Free)]

    return spoil


def first(steps: Steps, wanted: Wanted) -> int:
    """Index of the first such step.

    Raises:
        StopIteration: there is none.
    """
    return next(i for i, step in enumerate(steps) if wanted(step))


def last(steps: Steps, wanted: Wanted) -> int:
    """Index of the last such step.

    Raises:
        ValueError: there is none.
    """
    return max(i for i, step in enumerate(steps) if wanted(step))


def copies(reason: CopyReason) -> Wanted:
    """Copies made for that reason."""
    return lambda step: isinstance(step, Copy) and step.reason is reason


def with_rows(steps: Steps, change: Callable[[Row], Row]) -> Steps:
    """The steps with every row changed."""
    return [replace(s, rows=tuple(map(change, s.rows))) if isinstance(s, Compute) else s for s in steps]


def map_rows(schedule: Schedule, change: Callable[[Row], Row]) -> Schedule:
    """The schedule with every row changed."""
    return replace(schedule, steps=tuple(with_rows(list(schedule.steps), change)))


def map_snapshots(row: Row, change: Callable[[Snapshot], Snapshot]) -> Row:
    """The row with every snapshot changed."""
    return replace(row, snapshots=tuple(change(snapshot) for snapshot in row.snapshots))
