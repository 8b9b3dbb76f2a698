"""selftest.json: which fault was caught by what, what stayed silent and why, and whether anything clean alarmed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

__all__ = ["AdmittedLine", "CellRecord", "ControlRow", "FaultRow", "Selftest", "SignatureRecord"]


class SignatureRecord(Record):
    """How a fault looks; the words are those of ``replaycheck.faults.signature``."""

    onset: str
    conv: str
    state: str
    grid: str


class CellRecord(Record):
    """One cell of one seed with the fault planted."""

    seed: int
    cell: str
    failed: tuple[str, ...] = Field(description="checks that say that something is wrong")
    refused: str = Field(default="", description="why the arm couldn't be run, if it couldn't")
    planned: str = Field(default="", description="what the integer simulator says of the plan")
    signature: SignatureRecord | None = None
    first: str = Field(default="", description="the first scored position with other bits: trace/branch/turn@position")
    bits_differ: int | None = None
    positions: int | None = None
    max_abs_dlogp: float | None = Field(default=None, description="nat; null if none is finite")
    metrics: dict[str, float | None] = Field(default={}, description="value of each gate's metric")


class FaultRow(Record):
    """One planted fault and what saw it."""

    name: str
    family: str
    kind: str = Field(
        description="what it spoils: schedule, recipe, provider, weights, shards, cast, pool, cache, speculation"
    )
    imitates: str
    code: str
    claims: tuple[str, ...] = Field(description="checks that claim to catch it")
    caught_by: tuple[str, ...] = Field(description="checks that did, with every seed")
    missed_by: tuple[str, ...] = Field(description="checks that claim to and didn't with some seed")
    verdict: Literal["caught", "silent", "escaped"] = Field(description="silent: caught, and no logits can show it")
    why_silent: str = ""
    expected: SignatureRecord | None = None
    unlike: tuple[str, ...] = Field(default=(), description="where the first cell looks otherwise than expected")
    cells: tuple[CellRecord, ...] = ()
    alarms: tuple[str, ...] = Field(
        default=(), description="checks that failed in cells where the fault changes nothing"
    )


class ControlRow(Record):
    """A clean variant: it may change bits, and no check may fail."""

    name: str
    imitates: str
    failed: tuple[str, ...]
    changed: str = Field(description="what it changes against the usual, measured; empty if that isn't compared")


class AdmittedLine(Record):
    """One gate with the fault that admits it, on the quick suite."""

    file: str
    gate: str
    fault: str
    bound: float | None = Field(description="with the fault planted; null: its floor wasn't measured")
    clean: float | None
    faulty: float | None
    caught: bool
    also: tuple[str, ...]


class NamedRow(Record):
    """What the diagnosis called a planted fault, in one of its cells."""

    fault: str
    code: str = Field(description="what it should be called")
    named: str = Field(description="what it was called; empty if nothing was seen")
    confidence: str
    answer: str = Field(description="right (also a more general or special code), unknown, wrong, confidently wrong, …")


class Confusion(Record):
    """How often the diagnosis is right, of the cells where a fault changes anything, on a small random model."""

    seed: int = Field(default=0, description="of the letters and the model")
    rows: tuple[NamedRow, ...]
    shown: int
    right: int
    unknown: int
    wrong: int
    confidently_wrong: int


class Selftest(Record):
    """The whole of selftest.json."""

    schema_version: Literal[1] = 1
    model: str
    seeds: tuple[int, ...]
    device: str
    quick: bool
    admission: tuple[AdmittedLine, ...]
    faults: tuple[FaultRow, ...]
    controls: tuple[ControlRow, ...]
    confusion: Confusion | None = Field(default=None, description="null: not asked, as with --quick")
    held_out: Confusion | None = Field(
        default=None, description="the same with a seed that the rules weren't written with; null: not asked"
    )
    seconds: dict[str, float] = Field(description="wall seconds by part; of this run, not of its result")

    @property
    def escaped(self) -> tuple[FaultRow, ...]:
        return tuple(row for row in self.faults if row.verdict == "escaped")

    @property
    def false_alarms(self) -> tuple[str, ...]:
        """Clean variants and cells where something failed all the same."""
        found = [row.name for row in self.controls if row.failed]
        return (*found, *(f"{row.name}, where it changes nothing" for row in self.faults if row.alarms))

    @property
    def passed(self) -> bool:
        return not self.escaped and not self.false_alarms and all(line.caught for line in self.admission)
