"""Records as JSON files: sorted keys, ASCII, no NaN, whole or not there, read with errors that name the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from replaycheck.errors import UsageError
from replaycheck.files import write_atomically
from replaycheck.schema.base import Record
from replaycheck.schema.problems import problems

__all__ = ["MAX_JSON_BYTES", "read_json", "refuse_link", "write_json"]

MAX_JSON_BYTES = 256 * 2**20
"""No record comes near it: a cell is about 1 kB of result.json, and no matrix has 100,000 cells."""

AnyRecord = TypeVar("AnyRecord", bound=Record)


def write_json(path: Path, record: Record) -> None:
    """Write ``record`` to ``path``; equal records give equal bytes."""
    value = record.model_dump(mode="json", by_alias=True)
    text = json.dumps(value, sort_keys=True, allow_nan=False, indent=1, ensure_ascii=True)
    write_atomically(path, (text + "\n").encode("ascii"))


def read_json(path: Path, kind: type[AnyRecord], advice: str) -> AnyRecord:
    """The record in ``path``. :class:`UsageError` names the file, the first wrong field and ``advice``."""
    try:
        return kind.model_validate_json(_bounded(path, advice))
    except ValidationError as error:
        raise UsageError(f"{str(path)!r} isn't a valid record: {next(problems(error, advice, kind))}") from None


def _bounded(path: Path, advice: str) -> bytes:
    refuse_link(path)
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise UsageError(
                f"{str(path)!r} has {size:,} bytes; at most {MAX_JSON_BYTES:,} are read; give another file"
            )
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be read ({error.strerror}); {advice}") from None


def refuse_link(path: Path) -> None:
    """A link inside a run directory could lead anywhere; none is followed."""
    if path.is_symlink():
        raise UsageError(f"{str(path)!r} is a symbolic link; files of a run are plain files; put the file in its place")
