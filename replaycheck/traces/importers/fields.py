"""Typed access to the keys of a foreign record; what is wrong is named with file, line and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from replaycheck.errors import UsageError
from replaycheck.text import shorten

__all__ = ["MAX_LENGTH", "Fields", "Place"]

#: Tokens of a prompt or an answer. The longest real prompt has 894,371; more than ten of these is a mistake.
MAX_LENGTH = 10_000_000

# Longer values would hide the rest of the sentence.
_SHOWN = 60


@dataclass(frozen=True)
class Place:
    """A place in a file: ``FILE:LINE: field``."""

    path: Path
    line: int
    field: str = ""

    def inside(self, name: str) -> Place:
        """The field ``name`` of this one; ``[3]`` is an item."""
        dot = "." if self.field and not name.startswith("[") else ""
        return replace(self, field=f"{self.field}{dot}{name}")

    def fail(self, text: str) -> NoReturn:
        field = f"{self.field}: " if self.field else ""
        raise UsageError(f"{self.path}:{self.line}: {field}{text}")


@dataclass(frozen=True)
class Fields:
    """An object of the file at ``place``."""

    values: Mapping[str, Any]
    place: Place

    @classmethod
    def of(cls, value: object, place: Place) -> Fields:
        """Raises :class:`UsageError` if ``value`` isn't an object."""
        if not isinstance(value, dict):
            place.fail(f"{_given(value)} isn't an object; allowed: an object in braces")
        return cls(value, place)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def fail(self, name: str, text: str) -> NoReturn:
        self.place.inside(name).fail(text)

    def get(self, name: str) -> Any:
        """As it is, None if it is missing."""
        return self.values.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """A string; a missing or null one is ``default``, if there is one."""
        value = self._given(name, default)
        if not isinstance(value, str):
            self.fail(name, f"{_given(value)} isn't a string; allowed: a string")
        # Half a surrogate pair has no UTF-8 form, though JSON can spell it.
        return value.encode("utf-8", "replace").decode("utf-8")

    def name(self, name: str, default: str | None = None) -> str:
        """An identifier: a string or an integer."""
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.fail(name, f"{_given(value)} is no name; allowed: a string or an integer")
        return str(value).encode("utf-8", "replace").decode("utf-8")

    def integer(self, name: str, low: int = 0, high: int = MAX_LENGTH, default: int | None = None) -> int:
        value = self._given(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.fail(name, f"{_given(value)} isn't allowed; allowed: an integer from {low} to {high}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e18:
            self.fail(name, f"{_given(value)} isn't allowed; allowed: a number")
        return float(value)

    def time(self, name: str) -> float | None:
        """Seconds, or None where there is no time."""
        return self.number(name) if name in self else None

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers of any size: identifiers, not lengths."""
        values = self.array(name)
        for index, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, int):
                self.fail(f"{name}[{index}]", f"{_given(value)} isn't an integer; allowed: integers")
        return tuple(values)

    def array(self, name: str, default: list[Any] | None = None) -> list[Any]:
        value = self._given(name, default)
        if not isinstance(value, list):
            self.fail(name, f"{_given(value)} isn't a list; allowed: a list in brackets")
        return value

    def objects(self, name: str, default: list[Any] | None = None) -> Iterator[Fields]:
        """The items of a list of objects."""
        for index, value in enumerate(self.array(name, default)):
            yield Fields.of(value, self.place.inside(f"{name}[{index}]"))

    def object(self, name: str) -> Fields:
        return Fields.of(self._given(name, None), self.place.inside(name))

    def _given(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            self.fail(name, "is missing; this format needs it")
        return value


def _given(value: object) -> str:
    return shorten(repr(value)[: _SHOWN * 2], _SHOWN) if not isinstance(value, int) else shorten(_digits(value), _SHOWN)


def _digits(value: int) -> str:
    # Python refuses to print more than 4,300 digits.
    return str(value) if abs(value) < 10**40 else f"an integer of {value.bit_length()} bits"
