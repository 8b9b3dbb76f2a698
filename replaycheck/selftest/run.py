"""The whole of ``replaycheck selftest``: admission of the gates, then the matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from replaycheck.assets import model_dir
from replaycheck.faults.fault import find_fault
from replaycheck.faults.shipped import FAULTS
from replaycheck.replay.pool import default_workers
from replaycheck.schema.selftest import AdmittedLine, Selftest

from .admission import Caught, admission
from .matrix import QUICK, SEEDS, Job, control_rows, fault_rows, plan, run_jobs

__all__ = ["Asked", "selftest"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What ``selftest`` is asked for.

    Attributes:
        faults: () for all that ship, or those of ``quick``, with the clean variants.
        admitting, matrix: the two parts.
    """

    gates: tuple[str, ...] = ()
    model: Path | None = None
    faults: tuple[str, ...] = ()
    quick: bool = False
    device: str = "cpu"
    workers: int | None = None
    admitting: bool = True
    matrix: bool = True


def selftest(asked: Asked, say: Say = lambda line: None) -> Selftest:
    """Admit the gates, plant the faults, run the clean variants.

    Raises:
        UsageError: a fault or a gate file isn't there, or the record of admission can't be written.
    """
    names = asked.faults or (QUICK if asked.quick else tuple(FAULTS))
    for name in names:
        find_fault(name)
    begin = monotonic()
    lines = admission(asked.gates, asked.model, say) if asked.admitting else []
    middle = monotonic()
    seeds = SEEDS[:1] if asked.quick else SEEDS
    jobs = _jobs(asked, names, seeds) if asked.matrix else []
    workers = asked.workers or default_workers(len(jobs))
    say(f"{len(names)} faults, {len(seeds)} seeds: {len(jobs)} jobs, {workers} workers")
    found = list(run_jobs(jobs, workers, say))
    return Selftest(
        model=(asked.model or model_dir(None)).resolve().name,
        seeds=seeds,
        device=asked.device,
        quick=asked.quick,
        admission=_lines(lines),
        faults=fault_rows(names, found) if jobs else (),
        controls=control_rows(found),
        seconds={"admission": round(middle - begin, 1), "matrix": round(monotonic() - middle, 1)},
    )


def _jobs(asked: Asked, names: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Chosen faults come without the clean variants, which they have nothing to do with."""
    return plan(names, seeds, asked.model or model_dir(None), asked.device, controls=not asked.faults)


def _lines(lines: Sequence[Caught]) -> tuple[AdmittedLine, ...]:
    return tuple(
        AdmittedLine(
            file=line.file,
            gate=line.gate,
            fault=line.fault,
            bound=line.bound,
            clean=line.clean,
            faulty=line.faulty,
            caught=line.caught,
            also=line.also,
        )
        for line in lines
    )
