"""Whose answers a run compares: the lab, or a subject that is found by name and replays whole schedules itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import UsageError, choices
from replaycheck.schedule.steps import Schedule

__all__ = ["LAB", "SUBJECTS", "Subject", "find_subject"]

LAB = "lab"

#: Subjects that ship, beside the lab, as ``pkg.mod:factory``.
SUBJECTS: Mapping[str, str] = MappingProxyType({"null": "replaycheck.subjects.null:factory"})


@runtime_checkable
class Subject(Protocol):
    """Something that runs schedules.

    Attributes:
        name: what reports call it. digest: of its weights or version; other digests, other results.
        vocabulary: logits of one position.
    """

    name: str
    digest: str
    vocabulary: int

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """Run schedules of one or more groups, and record each; hits are those that the subject saw itself."""
        ...


@lru_cache(maxsize=4)
def find_subject(name: str) -> Subject:
    """A shipped subject by name, or anybody's by ``package.module:factory``, a function without arguments.

    Raises:
        UsageError: there is none, or what the factory makes isn't a subject.
    """
    place = SUBJECTS.get(name, name)
    module, colon, attribute = place.partition(":")
    if not colon:
        raise UsageError(
            f"unknown subject {name!r}; choose {choices([LAB, *SUBJECTS])}, or give package.module:factory"
        )
    try:
        found = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"subject {name!r} can't be made: {error}; give package.module:factory of a subject") from None
    if not isinstance(found, Subject):
        raise UsageError(f"{name!r} makes a {type(found).__name__}, which has no name, digest, vocabulary and replay()")
    return found
