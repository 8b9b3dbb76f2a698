"""Where a search stands, in one file that is replaced as a whole: a killed search goes on from its smallest case."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from replaycheck.errors import UsageError
from replaycheck.json_files import read_json, write_json
from replaycheck.schema.arm import Arm
from replaycheck.schema.base import Record
from replaycheck.schema.trace import Group

__all__ = ["FILE", "Progress", "Smallest", "load", "save"]

FILE = "bisect.json"


class Smallest(Record):
    """The smallest failing case so far. layers, heads: of the run's model that are left."""

    group: Group
    reference: Arm
    candidate: Arm
    layers: tuple[int, ...]
    heads: tuple[int, ...]


class Progress(Record):
    """The file."""

    schema_version: Literal[1] = 1
    run: str = Field(description="digest of the run's result: a search goes on for this run only")
    cell: str
    check: str = Field(description="what every smaller case must fail, too")
    tokens_before: int
    smallest: Smallest
    tests: int = Field(description="cases that were run")
    passed: tuple[str, ...] = Field(description="digests of cases that don't fail, which aren't run again")
    finished: bool = False


def load(folder: Path, run: str) -> Progress | None:
    """The progress in a folder; None if there is none.

    Raises:
        UsageError: it is another run's.
    """
    path = folder / FILE
    if not path.exists():
        return None
    found = read_json(path, Progress, "remove the file, or give --out another folder")
    if found.run != run:
        raise UsageError(f"{str(path)!r} belongs to another run; give --out another folder")
    return found


def save(folder: Path, progress: Progress) -> None:
    """Replace the file."""
    write_json(folder / FILE, progress)
