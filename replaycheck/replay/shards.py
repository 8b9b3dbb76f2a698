"""One shard of a run on disk: what it is to find out and which parts it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.gates.load import LoadedGates
from replaycheck.json_files import read_json, write_json
from replaycheck.schema.floor import Measure
from replaycheck.schema.result import ProbeResult
from replaycheck.schema.shard import ShardGates, ShardRecord

from .assemble import RunInfo
from .conclude import Plan
from .store import Run

__all__ = ["plan_in", "read_shard", "write_shard"]


def shard_file(run: Run) -> Path:
    return run.path / "shard.json"


def write_shard(
    run: Run,
    shard: str,
    plan: Plan,
    probes: Sequence[ProbeResult],
    parts: Sequence[str],
    repeats: Sequence[Measure] = (),
) -> None:
    """Write shard.json."""
    gates = tuple(
        ShardGates(
            path=str(each.path),
            shipped=each.shipped,
            gates=each.gates,
            admission=each.admission,
            lines=each.lines,
        )
        for each in plan.gates
    )
    record = ShardRecord(
        shard=shard,
        **asdict(plan.info),
        reproduce=plan.reproduce,
        arms=plan.arms,
        cells=plan.cells,
        gates=gates,
        probes=tuple(probes),
        parts=tuple(parts),
        floor=plan.floor,
        repeats=tuple(repeats),
    )
    write_json(shard_file(run), record)


def read_shard(run: Run) -> ShardRecord:
    """Raises :class:`UsageError` if the run isn't a shard, or wasn't finished."""
    if not shard_file(run).exists():
        whole = "is a whole run and not a shard" if run.result.exists() else "has no shard.json, so it wasn't finished"
        raise UsageError(
            f"{str(run.path)!r} {whole}; give folders of `run --shard i/n`, each finished (run --resume {run.path})"
        )
    return read_json(shard_file(run), ShardRecord, "the file was changed or cut short; run the shard again")


def plan_in(record: ShardRecord) -> Plan:
    """What the whole run is to find out."""
    info = RunInfo(**{each.name: getattr(record, each.name) for each in fields(RunInfo)})
    gates = tuple(
        LoadedGates(Path(each.path), each.gates, each.admission, each.shipped, each.lines) for each in record.gates
    )
    return Plan(info, record.arms, record.cells, gates, record.reproduce, record.floor)
