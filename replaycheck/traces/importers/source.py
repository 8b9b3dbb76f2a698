"""Files of other people's formats, read with limits: sizes, depth, encodings; each fault with file, line and field.

Lines are read one at a time, so that memory doesn't grow with their number. A byte order mark and CRLF are accepted. What
a file says is never a path, a format string or code to us.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from replaycheck.errors import UsageError
from replaycheck.traces.read import MAX_LINE

from .fields import Fields, Place

__all__ = ["MAX_JSON", "SourceFile"]

#: Bytes of a file that is one JSON value: the largest real session file has 5 MB, a ShareGPT dump 0.7 GB as JSON lines.
MAX_JSON = 256 * 2**20

_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class SourceFile:
    """One file to import."""

    path: Path

    @cached_property
    def sha256(self) -> str:
        with self._open() as handle:
            return _digest(handle)

    @cached_property
    def is_lines(self) -> bool:
        """JSON lines: the first line that isn't blank is an object by itself."""
        for number, raw in self._raw_lines():
            try:
                return isinstance(_parse(raw, Place(self.path, number)), dict)
            except UsageError:
                return False
        return False

    def records(self) -> Iterator[Fields]:
        """The objects of the file: one a line, the items of a list, or the one that it is."""
        if self.is_lines:
            yield from (Fields.of(value, place) for place, value in self.lines())
            return
        value = self.whole()
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, item in items:
            yield Fields.of(item, Place(self.path, 1, "" if index is None else f"[{index}]"))

    def lines(self) -> Iterator[tuple[Place, object]]:
        """Each line that isn't blank as JSON."""
        for number, raw in self._raw_lines():
            place = Place(self.path, number)
            yield place, _parse(raw, place)

    def texts(self) -> Iterator[tuple[Place, str]]:
        """Each line that isn't blank as text."""
        for number, raw in self._raw_lines():
            place = Place(self.path, number)
            yield place, _decode(raw, place).rstrip("\r\n")

    def whole(self) -> Any:
        """The file as one JSON value."""
        place = Place(self.path, 1)
        with self._open() as handle:
            raw = handle.read(MAX_JSON + 1)
        if len(raw) > MAX_JSON:
            place.fail(f"the file is one JSON value of more than {MAX_JSON} bytes; split it, or write it as JSON lines")
        if not raw.strip():
            place.fail("the file is empty")
        return _parse(raw.removeprefix(_BOM), place)

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        with self._open() as handle:
            number = 0
            while raw := handle.readline(MAX_LINE + 1):
                number += 1
                if len(raw) > MAX_LINE:
                    Place(self.path, number).fail(f"the line is longer than {MAX_LINE} bytes; split it")
                if number == 1:
                    if raw.startswith(_OTHER_BOMS):
                        Place(self.path, 1).fail("the file starts with a UTF-16 byte order mark; save it as UTF-8")
                    raw = raw.removeprefix(_BOM)
                if raw.strip():
                    yield number, raw

    def _open(self) -> BinaryIO:
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"{str(self.path)!r} isn't a plain file; give a trace file")
        try:
            return self.path.open("rb")
        except OSError as error:
            raise UsageError(f"{str(self.path)!r} can't be read ({error.strerror}); give a trace file") from None


def _digest(handle: BinaryIO) -> str:
    state = hashlib.sha256()
    while part := handle.read(1 << 20):
        state.update(part)
    return state.hexdigest()


def _decode(raw: bytes, place: Place) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = place.line + raw.count(b"\n", 0, error.start)
        Place(place.path, line).fail(f"byte 0x{raw[error.start]:02x} isn't UTF-8; save the file as UTF-8")


def _parse(raw: bytes, place: Place) -> Any:
    text = _decode(raw, place)
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = Place(place.path, place.line + error.lineno - 1)
        where.fail(f"malformed JSON, {error.msg} at column {error.colno}; correct it there")
    except RecursionError:
        place.fail("malformed JSON, nested too deeply; no format nests so")
    except ValueError as error:
        place.fail(f"malformed JSON, {error}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; write null or a number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value
