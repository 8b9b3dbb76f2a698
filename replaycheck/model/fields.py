"""Typed reading of a JSON object whose author is not trusted; every error names the file and the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from replaycheck.errors import UsageError

__all__ = ["Fields", "read_json_object"]

# A configuration is a few kilobytes; the bound keeps a wrong path (weights, a log) out of memory.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Fields:
    """A JSON object with its file and the dotted prefix of its place in that file."""

    file: Path
    values: Mapping[str, object]
    prefix: str = ""

    def error(self, field: str, wanted: str) -> UsageError:
        """The error for ``field``: what was given, what is allowed."""
        given = repr(self.values[field]) if field in self.values else "missing"
        return UsageError(f"{self.file}: field {self.prefix + field!r} is {given}; {wanted}")

    def integer(self, field: str, minimum: int = 1, maximum: int = 1 << 24) -> int:
        """An integer within bounds."""
        value = self.values.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.error(field, f"it must be an integer from {minimum} to {maximum}")
        return value

    def number(self, field: str, above: float, below: float) -> float:
        """A number strictly between two bounds."""
        value = self.values.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < below:
            raise self.error(field, f"it must be a number between {above} and {below}")
        return float(value)

    def choice(self, field: str, allowed: tuple[object, ...], default: object = ...) -> object:
        """One of ``allowed``, compared with its type (``True`` is not ``1``); the default where it is missing."""
        value = self.values.get(field, default)
        if not any(type(value) is type(option) and value == option for option in allowed):
            raise self.error(field, f"allowed: {', '.join(map(repr, allowed))}")
        return value

    def integers(self, field: str) -> tuple[int, ...]:
        """A list of integers."""
        value = self.values.get(field)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.error(field, "it must be a list of integers")
        return tuple(value)

    def strings(self, field: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.values.get(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, "it must be a list of strings")
        return tuple(value)

    def nested(self, field: str) -> Fields:
        """An object inside this one."""
        value = self.values.get(field)
        if not isinstance(value, dict):
            raise self.error(field, "it must be an object")
        return Fields(self.file, value, f"{self.prefix}{field}.")


def read_json_object(file: Path) -> Fields:
    """The JSON object in ``file``; :class:`UsageError` where it can't be read, is too large or is no object."""
    try:
        size = file.stat().st_size
        if size > _MAX_BYTES:
            raise UsageError(f"{file}: {size} bytes, but a configuration has at most {_MAX_BYTES}; check the path")
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); give a model directory that holds it") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file}: holds a {type(values).__name__}, but a configuration is a JSON object")
    return Fields(file, values)
