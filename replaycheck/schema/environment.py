"""environment.json: where and when a run was made. The one record of a run that may differ between equal runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

#: Whose words the traces of a run are: public ones, such as the shipped suites', or somebody's.
TextKind = Literal["public", "private"]


class Environment(Record):
    """Written when a run starts, and again when it ends; its presence makes a folder a run."""

    schema_version: Literal[1] = 1
    inputs: dict[str, str] = Field(
        description="what decides the results, by name (suite, model, seed, faults); a resume must give the same"
    )
    command: tuple[str, ...] = Field(description="the command line, without credentials")
    device: str
    device_name: str | None = Field(description="of an accelerator; null on a CPU")
    versions: dict[str, str | None] = Field(description="of replaycheck, Python and packages; null: not installed")
    platform: str
    cpu: str | None = Field(description="model name; null where the system doesn't say")
    cores: int = Field(description="cores that this process may use")
    variables: dict[str, str] = Field(description="environment variables that change numerics, those that are set")
    started: str = Field(description="UTC, ISO 8601")
    finished: str | None = None
    seconds: float | None = None
    text: TextKind | None = Field(
        default=None, description="private: a trace was imported; reports hide tokens, as they do where this is null"
    )
    cpu_seconds: dict[str, float] = Field(
        default={}, description="of all processes since the last start, by what they were spent on"
    )
