"""What is wrong with a record, in the reader's words: the field, what was given, what is allowed, what to do.

Every reader of a file turns pydantic's errors into these; adding the file and the line is the reader's part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from replaycheck.names import did_you_mean
from replaycheck.text import shorten

__all__ = ["Problem", "field_name", "problems"]

# Longer inputs would hide the rest of the sentence.
_SHOWN = 60

# Kinds that a file needn't name, since they are the default; pydantic puts them into the location.
_UNSPOKEN = ("reference",)


class Problem(NamedTuple):
    """One thing that is wrong: where in the record, and a sentence about it."""

    field: str
    text: str
    location: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        return f"{self.field}: {self.text}" if self.field else self.text


def problems(error: ValidationError, advice: str, kind: type[BaseModel] | None = None) -> Iterator[Problem]:
    """The problems behind a validation error, in the order of the record.

    Args:
        advice: says what to do. kind: of the record; with it, a misspelt key is told the nearest one, and comes first, since
            the key that it should have been is missing.
    """
    entries = error.errors(include_url=False)
    meant = [_meant(kind, entry) for entry in entries] if kind else [""] * len(entries)
    for index in sorted(range(len(entries)), key=lambda index: not meant[index]):
        entry = entries[index]
        if not _is_echo(entry, entries):
            location = tuple(entry["loc"])
            yield Problem(field_name(location), f"{_sentence(entry)}{meant[index]}; {advice}", location)


def _meant(kind: type[BaseModel], entry: Any) -> str:
    """The keys that an unknown one may stand for."""
    unknown = entry["type"] == "extra_forbidden"
    return did_you_mean(str(entry["loc"][-1]), _keys(kind, entry["loc"])) if unknown else ""


def _keys(kind: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Keys that the record could have where an unknown one stands; the tag of a union in a location names no field."""
    here = {kind}
    for part in location[:-1]:
        fields = [model.model_fields[str(part)] for model in here if str(part) in model.model_fields]
        here = {inner for field in fields for inner in _records(field.annotation)} or here
    return sorted({field.alias or name for model in here for name, field in model.model_fields.items()})


def _records(annotation: object) -> Iterator[type[BaseModel]]:
    """The records in a type such as ``tuple[Record, ...]``, ``Record | None`` or a union of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _records(inner)


def _is_echo(entry: Any, entries: Sequence[Any]) -> bool:
    """A tuple counts as too short once its only item is refused; the item's own problem is enough."""
    depth = len(entry["loc"])
    return entry["type"] == "too_short" and any(
        len(other["loc"]) > depth and other["loc"][:depth] == entry["loc"] for other in entries
    )


def field_name(location: Sequence[int | str]) -> str:
    """``("traces", 0, "turns", 3, "role")`` as ``traces[0].turns[3].role``."""
    name = ""
    for part in (part for part in location if part not in _UNSPOKEN):
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _given(entry: Any) -> str:
    return shorten(repr(entry["input"]), _SHOWN)


def _choice(entry: Any) -> str:
    return f"{_given(entry)} isn't allowed; allowed: {entry['ctx']['expected']}"


def _tag(entry: Any) -> str:
    context = entry["ctx"]
    name = context["discriminator"].strip("'")
    return f"{name} {shorten(repr(context['tag']), _SHOWN)} is unknown; allowed: {context['expected_tags']}"


def _other(entry: Any) -> str:
    message = entry["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{_given(entry)} {message}" if entry["msg"].startswith("Input ") else message


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "missing": lambda entry: "is missing",
    "extra_forbidden": lambda entry: f"is no known key (given {_given(entry)})",
    "literal_error": _choice,
    "enum": _choice,
    "union_tag_invalid": _tag,
    "union_tag_not_found": lambda entry: f"{_given(entry)} has no {entry['ctx']['discriminator']}",
    "string_pattern_mismatch": lambda entry: f"{_given(entry)} doesn't match {entry['ctx']['pattern']!r}",
    "too_short": lambda entry: (
        f"has {entry['ctx']['actual_length']} items, needs at least {entry['ctx']['min_length']}"
    ),
    # A record is one line of a file, whose number the reader knows better.
    "json_invalid": lambda entry: (
        "malformed JSON, " + entry["ctx"]["error"].replace(" at line 1 column ", " at column ")
    ),
    "finite_number": lambda entry: f"{_given(entry)} isn't a finite number",
}


def _sentence(entry: Any) -> str:
    return _SENTENCES.get(entry["type"], _other)(entry)
