"""A gate file (TOML) and its record of admission (JSON).

A gate is a declared bound on one number: a constant, or a factor times a measured floor, fixed before anybody looks. It
may judge only after ``selftest`` has seen its seeded fault exceed the bound; the record of that is the file's
``.admission.json``. A waiver lets a known failure pass until a date, and fails after it.
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from .arm import Effect, Experiment, PoolDtype
from .base import Record
from .floor import FloorKind

__all__ = ["Admission", "AdmittedGate", "Gate", "GateFile", "Scope", "Stage", "Waiver"]


class Stage(StrEnum):
    """The fixed sequence: after a failure in one stage, those after it are not judged (docs/statistics.md, Many cells)."""

    KERNEL = "kernel"
    STATE = "state"
    LOGITS = "logits"
    TOKENS = "tokens"


class Scope(Record):
    """Which cells, probes or audits the gate reads. An empty scope is the whole run."""

    effect: Effect | None = None
    pool: tuple[PoolDtype, ...] = ()
    experiment: Experiment | None = Field(default=None, description="null: forced. free: up to the first other token")


class Gate(Record):
    """One bound: ``bound`` alone, or ``floor`` and ``factor``."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    metric: str
    scope: Scope = Scope()
    bound: float | None = Field(default=None, description="the largest value that passes")
    floor: FloorKind | None = Field(
        default=None, description="the noise that the bound is a multiple of: run, num, rnd"
    )
    factor: float | None = Field(default=None, gt=0, description="the bound is this times the floor")
    k: float | None = Field(default=None, gt=0, description="of flips: margins over k times the floor's spread count")
    horizon: int | None = Field(default=None, ge=1, description="of first-divergence: tokens since the first restore")
    stage: Stage | None = Field(default=None, description="place in the fixed sequence; null: judged in any case")
    why: str = Field(description="the derivation of the bound")
    admitted_by: str = Field(description="the seeded fault that must exceed the bound")
    min_traces: int = Field(ge=0, description="under it the verdict is inconclusive")

    @model_validator(mode="after")
    def _one_bound(self) -> Gate:
        derived = self.floor is not None and self.factor is not None
        if (self.floor is None) is not (self.factor is None) or (self.bound is None) is not derived:
            raise ValueError("give bound, or floor and factor; not both, and not one of the two")
        return self


class Waiver(Record):
    """A failure that is known and allowed until a date."""

    gate: str = Field(description="the name of a gate of this file")
    reason: str = Field(min_length=1)
    owner: str = Field(min_length=1, description="who is asked when it expires")
    expires: date = Field(description="the last day on which it holds (UTC); after it the gate fails and says so")


class GateFile(Record):
    """A gate file, as it stands in TOML."""

    schema_: Literal["replaycheck.gates/1"] = Field(alias="schema")
    name: str
    gate: tuple[Gate, ...] = Field(min_length=1)
    waiver: tuple[Waiver, ...] = ()


class AdmittedGate(Record):
    """What selftest saw for one gate."""

    fault: str
    value: float = Field(description="the gate's value with the fault planted; must exceed the bound")
    clean: float = Field(description="the gate's value without it; must not")
    bound: float | None = Field(
        default=None, description="the bound in that run, where a floor decides it; null: the gate's own"
    )
    gate_digest: str

    def bound_of(self, gate: Gate) -> float | None:
        """The bound that both values were held against."""
        return gate.bound if self.bound is None else self.bound

    def separation(self, gate: Gate) -> float | None:
        """The fault's value over the bound; None for a bound of 0, which any value exceeds."""
        bound = self.bound_of(gate)
        return self.value / bound if bound else None


class Admission(Record):
    """FILE.admission.json. Versions are for information; the digests decide whether it is stale."""

    schema_version: Literal[1] = 1
    model_digest: str
    suite_digest: str
    gates: dict[str, AdmittedGate]
    versions: dict[str, str]
