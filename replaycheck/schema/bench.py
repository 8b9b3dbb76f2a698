"""bench.json: figures of one ``bench``, the ratios between them, and how they stand to what is wanted. It judges nothing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

__all__ = ["Bench", "Figure", "Target"]


class Figure(Record):
    """One measured number: the median of ``runs`` runs, with the lowest and the highest of them."""

    subject: str = Field(description="what was measured: a kernel, or a side with how many sessions a call")
    quantity: str = Field(description="prefill, decode, positions, time, peak memory, …")
    unit: str
    median: float
    lowest: float
    highest: float
    runs: int = Field(ge=1)


class Target(Record):
    """A number that is wanted, beside the one that was measured."""

    name: str
    unit: str
    wanted: float
    at_least: bool = Field(description="true: wanted is a lower bound; false: an upper one")
    found: float

    @property
    def met(self) -> bool:
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted


class Bench(Record):
    """One ``bench run``, ``bench kernels``, ``bench state`` or ``bench scale``."""

    schema_version: Literal[1] = 1
    kind: Literal["run", "kernels", "state", "scale"]
    device: str = Field(description="cpu or cuda")
    device_name: str = Field(description="model of the processor or accelerator; unknown where the system doesn't say")
    versions: dict[str, str | None] = Field(
        description="of replaycheck, Python, packages and providers; null: not there"
    )
    settings: dict[str, str] = Field(description="sizes and options that the figures depend on")
    figures: tuple[Figure, ...]
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="what wasn't measured and why; what a reader must know")
