"""Shards made anywhere become one run: the bytes that the whole run would have written, or a reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.files import write_atomically
from replaycheck.say import Say
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import Result
from replaycheck.schema.shard import ShardRecord

from .conclude import conclude
from .environment import describe, differences, finished
from .shards import plan_in, read_shard
from .store import Run, create_run, groups_done, open_run, part_path, read_environment, write_json

__all__ = ["merge"]

FOLDERS = {"observations": "parquet", "pairs": "parquet", "restores": "parquet", "groups": "json"}


def merge(paths: Sequence[Path], out: Path | None, say: Say = lambda line: None) -> tuple[Run, Result]:
    """Join the shards in ``paths`` to one run in ``out``.

    Raises:
        UsageError: a shard isn't one or isn't complete; shards are missing, given twice, or of unlike runs.
    """
    runs = [open_run(path) for path in paths]
    shards = [(run, read_shard(run)) for run in runs]
    _refuse_wrong_set(shards)
    shards.sort(key=lambda each: int(each[1].shard.partition("/")[0]))
    _refuse_unlike(shards)
    _refuse_incomplete(shards)
    for line in _machines(shards):
        say(f"warning: {line}")
    first = shards[0][1]
    record = create_run(_environment(shards[0][0]), out)
    say(f"{len(shards)} shards, {sum(len(shard.parts) for _, shard in shards):,} parts")
    for run, shard in shards:
        for part in shard.parts:
            _copy(run, record, part)
    result = conclude(record, plan_in(first), first.probes, repeats=first.repeats)
    write_json(record.environment, finished(read_environment(record)))
    return record, result


def _refuse_wrong_set(shards: Sequence[tuple[Run, ShardRecord]]) -> None:
    """Every shard of one number of shards, once."""
    first, of = shards[0], shards[0][1].shard.partition("/")[2]
    have: dict[str, Path] = {}
    for run, shard in shards:
        if shard.shard.partition("/")[2] != of:
            raise UsageError(
                f"{str(run.path)!r} is shard {shard.shard} and {str(first[0].path)!r} shard {first[1].shard}; "
                "merge shards of one cut"
            )
        if shard.shard in have:
            raise UsageError(
                f"{str(have[shard.shard])!r} and {str(run.path)!r} are both shard {shard.shard}; give each once"
            )
        have[shard.shard] = run.path
    missing = [name for name in (f"{index}/{of}" for index in range(1, int(of) + 1)) if name not in have]
    if missing:
        raise UsageError(
            f"shard {', '.join(missing)} is missing; run it (run --shard {missing[0]}) and give its folder"
        )


def _refuse_unlike(shards: Sequence[tuple[Run, ShardRecord]]) -> None:
    (reference, record), *others = shards
    inputs, plan = _inputs(reference), _plan(record)
    for run, other in others:
        found = _unlike(inputs, _inputs(run)) or _unlike(plan, _plan(other))
        if found:
            name, a, b = found
            raise UsageError(
                f"{str(reference.path)!r} has {name} {a} and {str(run.path)!r} {b}; merge shards of one suite, model and "
                "version"
            )


def _inputs(run: Run) -> dict[str, object]:
    """What decides the results: inputs and versions."""
    environment = read_environment(run)
    inputs = {name: value for name, value in environment.inputs.items() if name != "shard"}
    return inputs | {f"version of {name}": value for name, value in environment.versions.items()}


def _plan(record: ShardRecord) -> dict[str, object]:
    return record.model_dump(mode="json", exclude={"shard", "probes", "parts", "reproduce", "repeats"})


def _unlike(a: dict[str, object], b: dict[str, object]) -> tuple[str, str, str] | None:
    """The first name with two values."""
    different = (name for name in [*a, *(b.keys() - a.keys())] if a.get(name) != b.get(name))
    name = next(different, None)
    return None if name is None else (name, _short(a.get(name)), _short(b.get(name)))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


def _refuse_incomplete(shards: Sequence[tuple[Run, ShardRecord]]) -> None:
    owner: dict[str, Path] = {}
    for run, shard in shards:
        missing = sorted(set(shard.parts) - groups_done(run))
        if missing:
            raise UsageError(
                f"{str(run.path)!r} lacks part {missing[0]!r} ({len(missing)} in all); finish it with "
                f"run --resume {run.path}"
            )
        for part in shard.parts:
            if part in owner:
                raise UsageError(
                    f"part {part!r} is in {str(owner[part])!r} and in {str(run.path)!r}; give each shard once"
                )
            owner[part] = run.path


def _machines(shards: Sequence[tuple[Run, ShardRecord]]) -> list[str]:
    """What may explain numbers that differ between shards; each group is compared on one machine, so it decides nothing."""
    (reference, record), *others = shards
    here = read_environment(reference)
    lines = []
    for run, shard in others:
        for name, (a, b) in differences(here, read_environment(run)).items():
            if name.partition(".")[0] in ("cpu", "device_name", "platform", "variables"):
                lines.append(f"{name} is {a!r} in {str(reference.path)!r} and {b!r} in {str(run.path)!r}")
        if shard.probes != record.probes:
            lines.append(
                f"probes gave other numbers in {str(run.path)!r} than in {str(reference.path)!r}, whose are kept"
            )
    return lines


def _environment(first: Run) -> Environment:
    """This process's, with the inputs of the whole run."""
    of_shard = read_environment(first)
    inputs = {name: value for name, value in of_shard.inputs.items() if name != "shard"}
    return describe(inputs, of_shard.device, of_shard.device_name)


def _copy(source: Run, destination: Run, part: str) -> None:
    for folder, suffix in FOLDERS.items():
        data = part_path(source, folder, part, suffix)
        if not data.is_file():
            raise UsageError(f"{str(data)!r} isn't there; finish the shard with run --resume {source.path}")
        write_atomically(part_path(destination, folder, part, suffix), data.read_bytes())
