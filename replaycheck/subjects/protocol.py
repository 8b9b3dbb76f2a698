"""What a subject is: it describes itself, runs compiled schedules, and reports what it said and which hits it saw.

    describe()         → :class:`Description`: who it is, what it shows, what it can do
    replay(schedules)  → one :class:`replaycheck.compare.record.ArmRecording` a schedule, in order

A schedule's arm says which compiler it was made for. A subject runs the logical part of its steps: the requests
in order, cold ones from token 0, warm ones behind whatever the subject has stored. Plans (slots, chunks, columns) are the
lab's alone. ``docs/subjects.md`` shows a whole subject in 60 lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from replaycheck.compare.record import ArmRecording
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Group

__all__ = ["Description", "Said", "Subject", "SubjectOptions", "Translated", "Translates"]

#: Compilers that every subject must run; the lab runs all four.
COLD_AND_WARM = frozenset({Compiler.COLD, Compiler.WARM})


class Said(StrEnum):
    """What a subject says at a position."""

    #: the logits of the whole vocabulary
    LOGITS = "logits"
    #: the log-probability of the token and of some best ones
    TOP = "top"
    #: nothing but the token that it chose
    TOKEN = "token"


@dataclass(frozen=True)
class Description:
    """What a subject says about itself, before anything is run.

    Attributes:
        name: what reports call it.
        digest: of its weights, versions and settings: another digest, other results. A resumed run needs the same.
        vocabulary: token ids are 0 … vocabulary − 1.
        versions: of the engine and what it runs on, by package.
        said: what it says at a position. semantics: in words, e.g. "log-softmax of the raw logits, float32".
        forced: whether it scores tokens that it is given behind a hit. If not, its free runs are what is compared.
        states: whether its recordings hold the states that restores gave back.
        compilers: the arms that it can run. ``split`` is one if it can cut its prefill where warm's history was cut.
        policy: what its own cache stores and hits, if it decides that itself; None: it does what the suite says.
        pool: dtype of its states, if it is seen. asked: the one asked for, if any; it names arms where none is seen.
        wholes: whether a cold answer can be scored in one prefill as well, which is another legitimate computation.
        batches: whether several requests can be in flight at once: a cold arm (repeat 1) for the floor, and a warm one
            (repeat 1) that is held against warm. budget: tokens of a prefill step for a cold arm that is cut there; 0: none.
        pinned: whether cold is cut wherever a hit would cut it: then it is its own split arm.
        deterministic: whether two cold runs have the same bits, by its own word; None: it doesn't know.
        parallel: whether several processes may replay on it at once.
        not_seen: what it can't show, one sentence each; reports repeat them.
    """

    name: str
    digest: str
    vocabulary: int
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    said: Said = Said.LOGITS
    semantics: str = "logits, float32"
    forced: bool = True
    states: bool = False
    compilers: frozenset[Compiler] = COLD_AND_WARM
    policy: Policy | None = None
    pool: PoolDtype | None = None
    asked: PoolDtype | None = None
    wholes: bool = False
    batches: bool = False
    budget: int = 0
    pinned: bool = False
    deterministic: bool | None = None
    parallel: bool = False
    not_seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class SubjectOptions:
    """What the command line says about a subject; plain data that can be sent to another process.

    Attributes:
        url: of a server (``--url``). model: a local folder (``--model``). engine_model: the name by which a server knows
            its model (``--engine-model``). device: where it computes. settings: ``--subject-option NAME=VALUE``.
    """

    url: str | None = None
    model: Path | None = None
    engine_model: str | None = None
    device: str = "cpu"
    settings: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str, default: str | None = None) -> str | None:
        """The last value given for ``name``."""
        return dict(self.settings).get(name, default)


@runtime_checkable
class Subject(Protocol):
    """Something that runs schedules. A factory makes it, without arguments or from :class:`SubjectOptions`."""

    def describe(self) -> Description:
        """Who it is and what it can do; the same at every call.

        Raises :class:`replaycheck.errors.EngineEnvironmentError` if it can't be reached.
        """
        ...

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """Run schedules of one or more groups, and record each; hits are those that the subject saw itself.

        Raises :class:`replaycheck.errors.EngineEnvironmentError` if it dies; groups that are done stay stored.
        """
        ...


@dataclass(frozen=True)
class Translated:
    """A group in the subject's own token ids. bos: the id that its paths begin with. how: what a run says about it."""

    group: Group
    bos: int
    how: str


@runtime_checkable
class Translates(Protocol):
    """A subject whose model doesn't know the traces' vocabulary."""

    def translate(self, group: Group) -> Translated:
        """``group`` in the subject's token ids (see :mod:`replaycheck.traces.revocabulary`)."""
        ...
