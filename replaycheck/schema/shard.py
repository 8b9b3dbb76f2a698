"""shard.json: what ``merge`` needs of one shard of a run, beside its parts. Its presence says that the shard is complete."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .arm import Arm, Cell
from .base import Record
from .floor import Floors, Measure
from .gaps import StateDtype
from .gate import Admission, GateFile
from .result import ProbeResult
from .semantics import LogprobSemantics


class ShardGates(Record):
    """A gate file as the shard read it, so that a merge needs no file of another machine."""

    path: str
    shipped: bool
    gates: GateFile
    admission: Admission | None
    lines: tuple[int, ...] = Field(default=(), description="where each gate's table begins in the file")


class ShardRecord(Record):
    """Everything but ``shard``, ``probes``, ``parts`` and ``repeats`` is the same in all shards of a run."""

    schema_version: Literal[1] = 1
    shard: str = Field(description="i/n")
    suite: str
    suite_digest: str
    subject: str
    model: str
    model_digest: str
    recipe: str
    kernels: str
    device: str
    seed: int
    faults: tuple[str, ...]
    not_checked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    logprobs: LogprobSemantics = LogprobSemantics()
    state_dtype: StateDtype | None = None
    reproduce: str
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    gates: tuple[ShardGates, ...]
    probes: tuple[ProbeResult, ...]
    parts: tuple[str, ...] = Field(description="names of the parts that the shard holds")
    floor: Floors | None = Field(default=None, description="as given to the run; null: it measures its own")
    repeats: tuple[Measure, ...] = Field(default=(), description="F_run as the shard measured it")
