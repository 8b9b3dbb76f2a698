"""The run directory (docs/reference/files.md): who may create it, what makes it a run, and which groups in it are done.

    environment.json   written first; its presence makes a folder a run
    observations/ pairs/ restores/   one parquet file a part (parts.py): a group, or several small ones (batches.py)
    groups/            one JSON a part, written last: its groups are done
    divergences.parquet, result.json   written when every group is done

A run killed at any moment loses the parts in flight and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from replaycheck.errors import UsageError
from replaycheck.files import made_folder, new_folder, write_atomically
from replaycheck.json_files import read_json, refuse_link, write_json
from replaycheck.schema.environment import Environment
from replaycheck.schema.group import GroupRecord
from replaycheck.schema.result import Result

from .parts import Run, part_path, read_table, write_part, write_whole

__all__ = ["Run", "create_run", "groups_done", "iter_groups", "open_run", "part_path", "read_environment", "read_result",
           "read_table", "write_done", "write_group", "write_json", "write_part", "write_whole"]  # fmt: skip

_ADVICE = "the file was changed or cut short; run again, or give the folder of another run"


def create_run(environment: Environment, out: Path | None = None, resume: Path | None = None) -> Run:
    """Make the folder of a new run, or take up an interrupted one.

    Without ``out`` the folder is ``reports/<UTC time>-<4 random hex digits>``. With ``resume`` the run there goes on if
    its inputs are the same. Raises :class:`UsageError` and leaves the folder as it was in every other case.
    """
    if resume is not None:
        return _resumed(environment, out, resume)
    path = out if out is not None else Path("reports") / _run_id()
    _refuse_occupied(path)
    run = Run(made_folder(path))
    write_json(run.environment, environment)
    return run


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def _refuse_occupied(path: Path) -> None:
    if Run(path).environment.exists():
        raise UsageError(f"{str(path)!r} already holds a run; give --out another folder, or go on with --resume {path}")
    new_folder(path)


def _resumed(environment: Environment, out: Path | None, resume: Path) -> Run:
    if out is not None and out.resolve() != resume.resolve():
        raise UsageError(f"--out {str(out)!r} and --resume {str(resume)!r} differ; give --resume alone")
    run = open_run(resume)
    _refuse_other_inputs(run, read_environment(run).inputs, environment.inputs)
    for left_over in [*run.path.glob(".*.tmp"), *run.path.glob("*/.*.tmp")]:
        left_over.unlink(missing_ok=True)
    write_json(run.environment, environment)
    return run


def _refuse_other_inputs(run: Run, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Parts of two different runs in one folder would be one wrong result."""
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            raise UsageError(
                f"the run in {str(run.path)!r} has {name} {before.get(name)!r} and this one {now.get(name)!r}; "
                "resume with the same inputs, or give --out a new folder"
            )


def open_run(path: Path) -> Run:
    """An existing run, finished or not."""
    run = Run(path)
    if not run.environment.is_file():
        raise UsageError(f"{str(path)!r} isn't a run: it has no environment.json; give a folder that 'run' has written")
    return run


def write_group(run: Run, tables: Mapping[str, pa.Table], record: GroupRecord) -> None:
    """Write the tables of one finished group, then its record, which marks it as done."""
    for name, table in tables.items():
        write_part(run, name, record.group, table)
    path = part_path(run, "groups", record.group, "json")
    write_json(path, record)


def write_done(run: Run, record: GroupRecord, tables: Mapping[str, bytes]) -> None:
    """The same from the bytes of parts that a worker has encoded."""
    for name, data in tables.items():
        write_atomically(part_path(run, name, record.group, "parquet"), data)
    write_json(part_path(run, "groups", record.group, "json"), record)


def groups_done(run: Run) -> frozenset[str]:
    """Names of the parts whose tables and record are complete."""
    refuse_link(run.path / "groups")
    return frozenset(path.stem for path in (run.path / "groups").glob("[!.]*.json"))


def iter_groups(run: Run) -> Iterator[GroupRecord]:
    """The records of all finished parts, by name, one in memory at a time."""
    for part in sorted(groups_done(run)):
        yield read_json(part_path(run, "groups", part, "json"), GroupRecord, _ADVICE)


def read_result(run: Run) -> Result:
    """``result.json``; :class:`UsageError` if the run never finished or the file is damaged."""
    if not run.result.exists():
        raise UsageError(f"the run in {str(run.path)!r} has no result.json; finish it with run --resume {run.path}")
    refuse_probe_table(run)
    return read_json(run.result, Result, _ADVICE)


def refuse_probe_table(run: Run) -> None:
    """``probe kernels`` writes a result.json, too; its page is written at once, and it has no cells to judge again."""
    with run.result.open("rb") as file:
        file.seek(max(0, run.result.stat().st_size - 4096))  # keys are sorted: "verb" is among the last
        if b'"verb": "probe kernels"' in file.read():
            raise UsageError(
                f"{str(run.path)!r} holds a table of `replaycheck probe kernels`, not a run; "
                "read probe.html there, or give the folder of a run"
            )


def read_environment(run: Run) -> Environment:
    """environment.json of a run. Raises UsageError for one that isn't there or is damaged."""
    return read_json(run.environment, Environment, _ADVICE)
