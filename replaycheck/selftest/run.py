"""The whole of ``replaycheck selftest``: admission of the gates, then the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from replaycheck.assets import model_dir
from replaycheck.faults.fault import find_fault
from replaycheck.faults.shipped import FAULTS
from replaycheck.replay.pool import default_workers
from replaycheck.say import Say
from replaycheck.schema.selftest import AdmittedLine, Confusion, Selftest

from .admission import Caught, admission
from .confusion import HELD_OUT, confusion
from .matrix import QUICK, SEEDS, Job, control_rows, fault_rows, plan, run_jobs

__all__ = ["Asked", "selftest"]


EXACT = ("exact",)
"""What --quick admits: gates over noise take another minute on two cores, and CI's subset has three."""


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
    names = _here(names, asked.device, say)
    begin = monotonic()
    files = asked.gates or (EXACT if asked.quick else ())
    lines = admission(files, asked.model, say) if asked.admitting else []
    middle = monotonic()
    seeds = SEEDS[:1] if asked.quick else SEEDS
    jobs = _jobs(asked, names, seeds) if asked.matrix else []
    workers = asked.workers or default_workers(len(jobs))
    if jobs:
        say(f"{len(names)} faults, {len(seeds)} seeds: {len(jobs)} jobs, {workers} workers")
    found = list(run_jobs(jobs, workers, say))
    after = monotonic()
    named, held_out = _named(asked, names, say)
    return Selftest(
        model=(asked.model or model_dir(None)).resolve().name,
        seeds=seeds,
        device=asked.device,
        quick=asked.quick,
        admission=_lines(lines),
        faults=fault_rows(names, found) if jobs else (),
        controls=control_rows(found),
        confusion=named,
        held_out=held_out,
        seconds={
            "admission": round(middle - begin, 1),
            "matrix": round(after - middle, 1),
            "confusion": round(monotonic() - after, 1),
        },
    )


def _named(asked: Asked, names: Sequence[str], say: Say) -> tuple[Confusion | None, Confusion | None]:
    """What the diagnosis calls the faults, with the rules' seed and another; two seconds a fault, too long for --quick."""
    if asked.quick or not asked.matrix:
        return None, None
    say("naming each fault, with two seeds")
    workers = asked.workers or default_workers(len(names))
    return confusion(names, workers=workers), confusion(names, HELD_OUT, workers)


def _here(names: Sequence[str], device: str, say: Say) -> tuple[str, ...]:
    """The faults that can be planted on the device; of the others it is said why not."""
    found = [find_fault(name) for name in names]
    left_out = [fault for fault in found if fault.cpu_only and device != "cpu"]
    for fault in left_out:
        say(f"{fault.name} isn't planted on {device}: {fault.cpu_only}")
    return tuple(name for name, fault in zip(names, found, strict=True) if fault not in left_out)


def _jobs(asked: Asked, names: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Chosen faults come without the clean variants, which they have nothing to do with."""
    return plan(names, seeds, asked.model or model_dir(None), asked.device, controls=not asked.faults)


def _lines(lines: Sequence[Caught]) -> tuple[AdmittedLine, ...]:
    return tuple(
        AdmittedLine(
            file=line.file,
            gate=line.gate,
            fault=line.fault,
            bound=line.bounds[1],
            clean=line.clean,
            faulty=line.faulty,
            caught=line.caught,
            also=line.also,
        )
        for line in lines
    )
