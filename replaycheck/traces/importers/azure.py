"""Azure LLM inference traces: a request a row with lengths only. No sessions, no ids: nothing is shared."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from .api import Context, Head, Importer
from .blocks import Call, Span
from .draft import DraftGroup
from .fields import Fields, Place
from .source import SourceFile
from .windows import grow_by_root

__all__ = ["IMPORTER"]

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
#: Seven digits of a second in the 2023 files, none and a zone in the 2024 ones.
_FRACTION = re.compile(r"(\.\d{6})\d+")


def _recognise(head: Head) -> str | None:
    return f"the columns are {', '.join(_COLUMNS)}" if head.columns[:3] == _COLUMNS else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        context.log.note("file has lengths only: no prompt shares anything with another")
        yield from grow_by_root(source, _calls(source), context)


def _calls(source: SourceFile) -> Iterator[Call]:
    for number, (place, line) in enumerate(source.texts()):
        row = next(csv.reader([line]), [])
        if number == 0:
            if tuple(name.strip() for name in row[:3]) != _COLUMNS:
                place.fail(f"the columns are {', '.join(row[:5])!r}; allowed: {', '.join(_COLUMNS)}")
            continue
        if len(row) < len(_COLUMNS):
            place.fail(f"{len(row)} columns; allowed: {len(_COLUMNS)}, {', '.join(_COLUMNS)}")
        yield _call(source, Fields(dict(zip(_COLUMNS, map(_value, row), strict=False)), place), number)


def _value(cell: str) -> str | int:
    return int(cell) if re.fullmatch(r"\d{1,12}", cell.strip()) else cell.strip()


def _call(source: SourceFile, row: Fields, number: int) -> Call:
    key = (source.sha256, number)
    return Call(
        spans=(Span(key, 0, row.integer("ContextTokens", 1)),),
        blocks=0,
        out=row.integer("GeneratedTokens"),
        role="user",
        session=f"{source.sha256} {number}",
        number=number,
        time=_time(row.name("TIMESTAMP"), row.place),
    )


def _time(text: str, place: Place) -> float:
    try:
        return datetime.fromisoformat(_FRACTION.sub(r"\1", text)).timestamp()
    except (ValueError, OverflowError):
        place.inside("TIMESTAMP").fail(f"{text[:40]!r} is no time; allowed: as 2023-11-16 18:17:03.97")


IMPORTER = Importer("azure", "Azure LLM inference traces: lengths only, CSV", _recognise, _read)
