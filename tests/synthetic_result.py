"""A whole run made of synthetic recordings, on disk, as a driver would write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from replaycheck.compare.group import compare_group
from replaycheck.compare.record import ArmRecording
from replaycheck.gates.load import load_gates
from replaycheck.replay.assemble import RunInfo, assemble, collect, finish
from replaycheck.replay.environment import describe
from replaycheck.replay.store import Run, create_run, write_group
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import ProbeResult, Result
from tests import synthetic_run as syn

INFO = RunInfo(
    suite="quick",
    suite_digest="s1",
    subject="lab",
    model="tiny",
    model_digest="m1",
    recipe="exact",
    kernels="ours",
    device="cpu",
    seed=0,
)
PROBES = (
    ProbeResult(name="double-rounding", verdict="pass", sentence="none", values={"mismatches": 0}),
    ProbeResult(
        name="kernels/chunk/exact/usual",
        verdict="pass",
        sentence="within",
        values={"error": 1e-7, "predicted": 2e-7, "ratio": 0.5},
    ),
)

Change = Callable[[dict[str, ArmRecording]], dict[str, ArmRecording]]


def started(path: Path, **inputs: str) -> Run:
    return create_run(describe({"suite": "s1", "model": "m1", **inputs}, "cpu", command=["replaycheck", "run"]), path)


def fill(run: Run, change: Change = lambda found: found, pool: PoolDtype = PoolDtype.FP16) -> None:
    arms, cells = syn.arms_and_cells(pool)
    group = compare_group("g", arms, cells, change(syn.recordings(arms)))
    write_group(run, group.tables, group.record)


def judged(
    run: Run,
    probes: Sequence[ProbeResult] = PROBES,
    pool: PoolDtype = PoolDtype.FP16,
    info: RunInfo = INFO,
    gates: Sequence[str] = ("exact",),
) -> Result:
    arms, cells = syn.arms_and_cells(pool)
    collected = collect(run, arms, cells)
    result = assemble(info, collected, probes, [load_gates(name) for name in gates])
    finish(run, result)
    return result


def whole(path: Path, change: Change = lambda found: found) -> Result:
    run = started(path)
    fill(run, change)
    return judged(run)
