"""All rows of ``probe state``, in the order in which they are shown, and how they are run."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.errors import UsageError
from replaycheck.faults.fault import Fault
from replaycheck.say import Say
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.state_table import StateTable

from . import batching, caches, conv, lab, parallel, pipeline, plans, rollback, slots, snapshots, speculation, tables
from .found import Check
from .subject import Subject

__all__ = ["CHECKS", "plant", "probe_state"]

PARTS = (
    "copies",
    "pool",
    "convolution",
    "snapshots",
    "forks",
    "plans",
    "prefix caches",
    "speculation",
    "lab",
    "parallel",
)
CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (
            check
            for module in (
                slots,
                conv,
                snapshots,
                tables,
                plans,
                caches,
                speculation,
                lab,
                batching,
                pipeline,
                rollback,
                parallel,
            )
            for check in module.checks()
        ),
        key=lambda check: PARTS.index(check.part),
    )
)


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
        if fault.kind in ("recipe", "weights"):
            raise UsageError(
                f"--fault {fault.name} changes a kernel's arithmetic in every arm, which operations on states can't show; "
                f"give it to `replaycheck probe kernels`"
            )
        _plant_part(subject, fault)
    plans_of = [fault for fault in faults if fault.schedule is not None]
    if plans_of:
        subject.spoil = lambda schedule: _spoiled(schedule, plans_of)


def _plant_part(subject: Subject, fault: Fault) -> None:
    """What a fault replaces of a subject."""
    if fault.cast is not None:
        subject.store = fault.cast
    elif fault.pool is not None:
        subject.pool = fault.pool(subject.pool)
    elif fault.cache is not None:
        subject.cache = fault.cache
    elif fault.speculation is not None:
        subject.backend = fault.speculation(subject.backend)
    elif fault.provider is not None:
        subject.replaced |= {form: fault.provider(kernel) for form, kernel in subject.kernels.items()}
        subject.__dict__.pop("kernels")  # to be made again, with these


def _spoiled(schedule: Schedule, faults: Sequence[Fault]) -> Schedule:
    for fault in faults:
        schedule = fault.on_schedule(schedule)
    return schedule
