"""What an importer is. A module gives one :class:`Importer`; a package announces its own as an entry point.

The idea: an importer turns files of one format into :class:`~.draft.DraftGroup` objects, trees of turns of any length. What
is the same for all formats (names, cutting to size, hiding text, token ids, checking, writing) is done afterwards, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replaycheck.errors import UsageError, choices
from replaycheck.schema.trace import Group

from .draft import DraftGroup
from .log import Log
from .source import SourceFile

__all__ = ["Context", "Head", "Importer", "Options"]

TAILS = ("own", "next")


@dataclass(frozen=True)
class Options:
    """What a user can ask of an import."""

    #: share of each turn's characters that is kept, 0 < scale ≤ 1
    scale: float = 1.0
    #: tokens of the longest path of a group; None: no limit
    max_tokens: int | None = None
    #: groups to write; None: all
    max_traces: int | None = None
    #: requests of one group, for formats without sessions
    group_size: int = 64
    anonymise: bool = False
    #: where the unhashed tail of a prompt comes from: text of its own, or the block with which the next prompt goes on
    tails: str = "own"

    def __post_init__(self) -> None:
        """Raises UsageError for a value that isn't allowed."""
        if not 0 < self.scale <= 1:
            raise UsageError(f"an import at scale {self.scale:g} was asked for; give a share above 0 and up to 1")
        if self.group_size < 1:
            raise UsageError(f"groups of {self.group_size} requests were asked for; give 1 or more")
        if self.tails not in TAILS:
            raise UsageError(f"tails {self.tails!r} are unknown; allowed are {choices(TAILS)}")


@dataclass(frozen=True)
class Context:
    """What an importer gets beside its files."""

    options: Options = field(default_factory=Options)
    log: Log = field(default_factory=Log)


@dataclass(frozen=True)
class Head:
    """What a format is recognised by: the first records of a file, or the names of its columns."""

    records: tuple[Mapping[str, Any], ...] = ()
    columns: tuple[str, ...] = ()
    #: the file is one JSON list
    is_list: bool = False

    def all_have(self, *names: str) -> bool:
        """Every record has these keys."""
        return bool(self.records) and all(name in record for record in self.records for name in names)

    def first(self, *names: str) -> Mapping[str, Any] | None:
        """The first record that has these keys."""
        return next((record for record in self.records if all(name in record for name in names)), None)


@dataclass(frozen=True)
class Importer:
    """One format.

    Attributes:
        name: what the user types.
        title: a line for ``--help``.
        recognise: why a file is of this format, or None.
        read: the groups of some files of this format, drafts or finished ones; raises UsageError with file, line and field.
    """

    name: str
    title: str
    recognise: Callable[[Head], str | None]
    read: Callable[[Sequence[SourceFile], Context], Iterator[DraftGroup | Group]]
