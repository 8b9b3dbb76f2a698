"""Read a suite file (TOML) and find what it names: trace files and gate files.

A name is ``suite:NAME`` or a path for traces, a shipped name or a path for gates; paths are relative to the suite file.
Errors name the file, and the line where the TOML parser gives it, else the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from replaycheck import assets
from replaycheck.errors import UsageError
from replaycheck.schema.problems import problems
from replaycheck.schema.suite import Suite
from replaycheck.toml_lines import line_of

__all__ = ["SUITE_PREFIX", "find_traces", "gate_names", "parse_suite"]

SUITE_PREFIX = "suite:"

#: Bytes. A suite is written by hand; this is a hundred times the longest that ships.
MAX_SIZE = 1024 * 1024

_PLACE = re.compile(r" ?\(at line (\d+), column (\d+)\)$")


def parse_suite(path: Path) -> Suite:
    """Read and check a suite file alone. Raises :class:`UsageError`."""
    text = _read(path)
    try:
        return Suite.model_validate(_parse(path, text))
    except ValidationError as error:
        problem = next(problems(error, "see `replaycheck schema suite`", Suite))
        line = line_of(text, problem.location)
        raise UsageError(f"{path}{f':{line}' if line else ''}: {problem}") from None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_SIZE + 1)
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be read ({error.strerror}); give a SUITE.toml or --preset") from None
    if len(data) > MAX_SIZE:
        raise UsageError(f"{path} has more than {MAX_SIZE} bytes; give a SUITE.toml, not traces")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte 0x{data[error.start]:02x} isn't UTF-8; save the file as UTF-8") from None


def _parse(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line_column = f":{place[1]}:{place[2]}" if place else ""
        said = _PLACE.sub("", str(error))
        raise UsageError(f"{path}{line_column}: malformed TOML, {said}; correct it there") from None


def find_traces(names: Sequence[str], named_in: Path | None = None) -> tuple[Path, ...]:
    """The files of ``suite:NAME`` or paths, each once. Paths are relative to the file ``named_in`` if it is given."""
    return tuple(dict.fromkeys(_find_trace(name, named_in) for name in names))


def gate_names(names: Sequence[str], named_in: Path) -> tuple[str, ...]:
    """Shipped names as they are; paths (``.toml``) relative to the suite file ``named_in``."""
    return tuple(str(named_in.parent / name) if name.endswith(".toml") else name for name in names)


def _find_trace(name: str, named_in: Path | None) -> Path:
    if name.startswith(SUITE_PREFIX):
        return assets.trace_suite(name.removeprefix(SUITE_PREFIX))
    return _existing(name, named_in, "trace file", "give the path of a .jsonl file or suite:NAME")


def _existing(name: str, named_in: Path | None, kind: str, advice: str) -> Path:
    path = named_in.parent / name if named_in else Path(name)
    if not path.is_file():
        where = f", named in {named_in}," if named_in else ""
        wrong = "is a folder" if path.is_dir() else "isn't there"
        raise UsageError(f"{kind} {str(path)!r}{where} {wrong}; {advice}")
    return path
