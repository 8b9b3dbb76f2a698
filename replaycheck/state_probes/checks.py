"""All rows of ``probe state``, in the order in which they are shown, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replaycheck.errors import UsageError
from replaycheck.faults.fault import Fault
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.state_table import StateTable

from . import caches, conv, lab, plans, rollback, slots, snapshots, speculation, tables
from .found import Check
from .subject import Subject

__all__ = ["CHECKS", "plant", "probe_state"]

PARTS = ("copies", "pool", "convolution", "snapshots", "forks", "plans", "prefix caches", "speculation", "lab")
CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (
            check
            for module in (slots, conv, snapshots, tables, plans, caches, speculation, lab, rollback)
            for check in module.checks()
        ),
        key=lambda check: PARTS.index(check.part),
    )
)

Say = Callable[[str], None]


def probe_state(subject: Subject, faults: Sequence[Fault] = (), say: Say = lambda line: None) -> StateTable:
    """Every wanted row.

    Raises:
        UsageError: ``only`` fits no row, or a fault that no row here can show.
    """
    wanted = [check for check in CHECKS if subject.wants(check.name)]
    if not wanted:
        names = ", ".join(check.name for check in CHECKS)
        raise UsageError(f"--only {' '.join(subject.only)}: no row has that in its name; rows are {names}")
    plant(subject, faults)
    rows = []
    for number, check in enumerate(wanted, 1):
        say(f"{number} of {len(wanted)}: {check.name}")
        rows.append(check.row(subject))
    return StateTable(
        device=subject.device,
        recipe=subject.recipe.name,
        seed=subject.seed,
        faults=tuple(fault.name for fault in faults),
        rows=tuple(rows),
    )


def plant(subject: Subject, faults: Sequence[Fault]) -> None:
    """Faults of casts and of warm plans enter here; one of the arithmetic shows in kernels alone."""
    for fault in faults:
        if fault.recipe is not None:
            raise UsageError(
                f"--fault {fault.name} changes a kernel's arithmetic in every arm, which operations on states can't show; "
                f"give it to `replaycheck probe kernels`"
            )
        if fault.cast is not None:
            subject.store = fault.cast
    plans_of = [fault for fault in faults if fault.schedule is not None]
    if plans_of:
        subject.spoil = lambda schedule: _spoiled(schedule, plans_of)


def _spoiled(schedule: Schedule, faults: Sequence[Fault]) -> Schedule:
    for fault in faults:
        schedule = fault.on_schedule(schedule)
    return schedule
