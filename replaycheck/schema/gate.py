"""A gate file (TOML) and its record of admission (JSON).

A gate is a declared bound on one number. It may judge only after ``selftest`` has seen its seeded fault exceed the
bound; the record of that is the file's ``.admission.json`` (DESIGN §7).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .arm import Effect, PoolDtype
from .base import Record


class Scope(Record):
    """Which cells, probes or audits the gate reads. An empty scope is the whole run."""

    effect: Effect | None = None
    pool: tuple[PoolDtype, ...] = ()


class Gate(Record):
    """One bound."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    metric: str
    scope: Scope = Scope()
    bound: float = Field(description="the largest value that passes")
    why: str = Field(description="the derivation of the bound")
    admitted_by: str = Field(description="the seeded fault that must exceed the bound")
    min_traces: int = Field(ge=0, description="under it the verdict is inconclusive")


class GateFile(Record):
    schema_: Literal["replaycheck.gates/1"] = Field(alias="schema")
    name: str
    gate: tuple[Gate, ...] = Field(min_length=1)


class AdmittedGate(Record):
    """What selftest saw for one gate."""

    fault: str
    value: float = Field(description="the gate's value with the fault planted; must exceed the bound")
    clean: float = Field(description="the gate's value without it; must not")
    gate_digest: str


class Admission(Record):
    """FILE.admission.json. Versions are for information; the digests decide whether it is stale."""

    schema_version: Literal[1] = 1
    model_digest: str
    suite_digest: str
    gates: dict[str, AdmittedGate]
    versions: dict[str, str]
