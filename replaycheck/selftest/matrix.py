"""The detection matrix: faults in their cells and probes, and clean variants, over several seeds, in worker processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from multiprocessing import get_context
from pathlib import Path

from replaycheck.faults.cell import SmallCell
from replaycheck.faults.clean import CONTROLS
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.faults.shipped import FAMILIES
from replaycheck.faults.signature import Signature, agrees
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.processes import end_workers
from replaycheck.replay.pool import start_worker
from replaycheck.replay.worker import one_thread
from replaycheck.say import Say
from replaycheck.schema.selftest import CellRecord, ControlRow, FaultRow, SignatureRecord

from .controls import run_control
from .lab import PROBED, CellSeen, Lab
from .probes import failed_probes

__all__ = ["QUICK", "SEEDS", "Found", "control_rows", "fault_rows", "plan", "run_jobs"]

SEEDS = (0, 1, 2)
"""Letters of the small groups, and inputs of the probes."""

QUICK = (
    "bf16-snapshot", "via-bf16", "beta-bf16", "rates-bf16", "norm-without-epsilon", "chunk-early", "never-written",
    "rows-rotated", "transposed", "conv-late", "running-slot", "mask-dropped", "not-cleared", "fork-shared", "slot-reused",
    "conv-not-moved", "null-slot-written", "cache-never-hits", "lost-checkpoint", "kept-one-more", "keys-scaled",
    "committed-twice", "beta-raw", "scale-twice", "decay-last", "silu-missing", "rates-of-next-rank", "source-evicted",
)  # fmt: skip
"""One or two of each kind and family, on their smallest cells: what CI runs, with one seed."""


@dataclass(frozen=True)
class Job:
    """Work of one process: cells of one group, probes, or clean variants. Plain data."""

    kind: str  # "cells", "probes" or "controls"
    seed: int
    names: tuple[str, ...]
    model: Path
    group: str = ""
    device: str = "cpu"


@dataclass(frozen=True)
class Found:
    """One answer of a job: a fault in a cell, a fault in the probes, or a control."""

    kind: str  # "cell", "silent", "probes" or "control"
    name: str
    record: CellRecord


def plan(names: Sequence[str], seeds: Sequence[int], model: Path, device: str, controls: bool = True) -> list[Job]:
    """The jobs of these faults; longest first, so that processes end together."""
    jobs = []
    for seed in seeds:
        groups: dict[str, list[str]] = defaultdict(list)
        for name in names:
            fault = find_fault(name)
            for group in dict.fromkeys(cell.group for cell in (*fault.cells, *fault.silent_on)):
                groups[group].append(name)
        jobs += [Job("cells", seed, tuple(mine), model, group, device) for group, mine in groups.items()]
        jobs.append(Job("probes", seed, tuple(names), model, device=device))
        if controls:
            # Orders of torch's sums are emulated on the CPU; on a GPU the kernels' own would not change.
            mine_too = tuple(c.name for c in CONTROLS if device == "cpu" or not c.sums)
            jobs.append(Job("controls", seed, mine_too, model, device=device))
    return sorted(jobs, key=lambda job: -len(job.names))


def run_jobs(jobs: Sequence[Job], workers: int, say: Say) -> Iterator[Found]:
    """Answers as they are ready."""
    if workers == 1:
        one_thread()
        for number, job in enumerate(jobs, 1):
            yield from _run(job)
            say(_done(number, jobs, job))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=start_worker) as pool:
        futures = {pool.submit(_run, job): job for job in jobs}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                yield from future.result()
                say(_done(number, jobs, futures[future]))
        except BaseException:
            end_workers()
            raise


def _done(number: int, jobs: Sequence[Job], job: Job) -> str:
    what = f"group {job.group}" if job.group else job.kind
    noun = "controls" if job.kind == "controls" else "faults"
    return f"{number} of {len(jobs)}: {what}, seed {job.seed}, {len(job.names)} {noun}"


@lru_cache(maxsize=1)
def _gates() -> tuple[LoadedGates, ...]:
    return (load_gates("exact"),)


def _run(job: Job) -> list[Found]:
    lab = Lab(job.model, _gates(), job.seed, job.device)
    if job.kind == "cells":
        return list(_cells(job, lab))
    if job.kind == "probes":
        return list(_probes(job))
    return list(_controls(job, lab))


def _cells(job: Job, lab: Lab) -> Iterator[Found]:
    for name in job.names:
        fault = find_fault(name)
        for cell in fault.cells:
            if cell.group == job.group:
                yield Found("cell", name, _record(job.seed, lab.run(cell, fault, name)))
        for cell in fault.silent_on:
            if cell.group == job.group:
                yield Found("silent", name, _record(job.seed, lab.run(cell, fault, name)))
    for cell in _clean(job):
        yield Found("control", f"clean {cell.name}", _record(job.seed, lab.run(cell, None)))


def _clean(job: Job) -> Iterable[SmallCell]:
    """Each cell of the job without a fault, once; cells that a plan refuses have no clean run."""
    faults = [find_fault(name) for name in job.names]
    cells = [cell for fault in faults for cell in fault.cells if cell.group == job.group]
    refusing = [cell for fault in faults if fault.claims == ("lab/refused",) for cell in fault.cells]
    return dict.fromkeys(cell for cell in cells if cell not in refusing)


def _record(seed: int, seen: CellSeen) -> CellRecord:
    numbers = seen.numbers
    largest = numbers.abs_dlogp.get("max") if numbers else None
    return CellRecord(
        seed=seed,
        cell=seen.cell,
        failed=seen.failed,
        refused=seen.refused,
        planned=seen.planned,
        signature=_signature(seen.signature) if seen.signature else None,
        first=f"{seen.first.turn}@{seen.first.position}" if seen.first else "",
        bits_differ=numbers.bits_differ if numbers else None,
        positions=numbers.positions if numbers else None,
        max_abs_dlogp=largest if largest is not None and isfinite(largest) else None,
        metrics={gate.metric: gate.value.value for gate in seen.gates},
    )


def _signature(signature: Signature) -> SignatureRecord:
    return SignatureRecord(
        onset=str(signature.onset), conv=str(signature.conv), state=str(signature.state), grid=str(signature.grid)
    )


def _probed(fault: Fault) -> tuple[str, ...]:
    """Claims that a probe answers."""
    return tuple(
        claim
        for claim in fault.claims
        if claim.startswith(("state/", "kernels/", "extremes/")) or claim.partition("/")[2] in PROBED
    )


def _probes(job: Job) -> Iterator[Found]:
    claimed: dict[str, None] = {}
    for name in job.names:
        fault = find_fault(name)
        claims = _probed(fault)
        claimed |= dict.fromkeys(claims)
        if claims:
            failed = failed_probes(fault, claims, job.model, _gates(), job.seed)
            yield Found("probes", name, CellRecord(seed=job.seed, cell="probes", failed=failed))
    clean = failed_probes(None, tuple(claimed), job.model, _gates(), job.seed)
    yield Found("control", "clean probes", CellRecord(seed=job.seed, cell="probes", failed=clean))


def _controls(job: Job, lab: Lab) -> Iterator[Found]:
    for control in (c for c in CONTROLS if c.name in job.names):
        seen = run_control(lab, control)
        text = f"{seen.differ} of {seen.positions} positions, a logit by {seen.largest:.3g} at most"
        yield Found(
            "control", control.name, CellRecord(seed=job.seed, cell=control.cell.name, failed=seen.failed, first=text)
        )


def fault_rows(names: Sequence[str], found: Iterable[Found]) -> tuple[FaultRow, ...]:
    """One row a fault, in the order of the names. A check caught it if it failed with every seed."""
    by_name: dict[str, list[Found]] = defaultdict(list)
    for each in found:
        by_name[each.name].append(each)
    return tuple(_row(name, by_name[name]) for name in names)


def _row(name: str, found: Sequence[Found]) -> FaultRow:
    fault = find_fault(name)
    cells = sorted(
        (each.record for each in found if each.kind == "cell"), key=lambda r: (_order(fault, r.cell), r.seed)
    )
    caught = _in_every_seed(found, fault)
    missed = tuple(claim for claim in fault.claims if claim not in caught)
    silent = [each.record for each in found if each.kind == "silent"]
    return FaultRow(
        name=name,
        family=_family(name),
        kind=fault.kind,
        imitates=fault.imitates,
        code=fault.code,
        claims=fault.claims,
        caught_by=caught,
        missed_by=missed,
        verdict="escaped" if missed or not caught else "silent" if fault.silent else "caught",
        why_silent=fault.silent,
        expected=_signature(fault.expected) if fault.expected else None,
        unlike=_unlike(fault, cells),
        cells=tuple(cells),
        alarms=tuple(f"{record.cell}: {check}" for record in silent for check in record.failed),
    )


def _order(fault: Fault, cell: str) -> int:
    return [each.name for each in fault.cells].index(cell)


def _family(name: str) -> str:
    return next((family for family, faults in FAMILIES.items() if name in {f.name for f in faults}), "third party")


def _in_every_seed(found: Sequence[Found], fault: Fault) -> tuple[str, ...]:
    """Checks that failed with every seed, in the first cell or in a probe; those that are claimed first."""
    first = fault.cells[0].name if fault.cells else ""
    wanted = [each for each in found if each.kind == "probes" or (each.kind == "cell" and each.record.cell == first)]
    seeds: dict[str, set[int]] = defaultdict(set)
    for each in wanted:
        for check in each.record.failed:
            seeds[check].add(each.record.seed)
    everywhere = {each.record.seed for each in wanted}
    caught = [check for check, mine in seeds.items() if mine == everywhere]
    return tuple(sorted(caught, key=lambda check: (check not in fault.claims, check)))


def _unlike(fault: Fault, cells: Sequence[CellRecord]) -> tuple[str, ...]:
    """Where the first cell isn't as expected, by seed."""
    if fault.expected is None or not fault.cells:
        return ()
    wanted = _signature(fault.expected).model_dump()
    mine = [record for record in cells if record.cell == fault.cells[0].name and record.signature]
    return tuple(
        f"seed {record.seed}: {part} is {value}, not {wanted[part]}"
        for record in mine
        for part, value in (record.signature.model_dump() if record.signature else {}).items()
        if not agrees(wanted[part], value)
    )


def control_rows(found: Iterable[Found]) -> tuple[ControlRow, ...]:
    """Clean variants, and the cells and probes without a fault: one row each, over all seeds."""
    said = {control.name: control.imitates for control in CONTROLS}
    rows: dict[str, list[CellRecord]] = defaultdict(list)
    for each in found:
        if each.kind == "control":
            rows[each.name].append(each.record)
    return tuple(
        ControlRow(
            name=name,
            imitates=said.get(name, "nothing is planted"),
            failed=tuple(dict.fromkeys(check for record in records for check in record.failed)),
            changed=records[0].first if name in said else "",
        )
        for name, records in sorted(rows.items())
    )
