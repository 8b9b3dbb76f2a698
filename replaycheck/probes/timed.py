"""A cell with the time it took, as a line that a child process prints and its parent reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from replaycheck.schema.probe_table import ProbeCell

from .properties import probe
from .subject import Subject


@dataclass(frozen=True)
class Timed:
    """A cell, the seconds of its first and of its warm pass, and the autotuned configurations that ran."""

    cell: ProbeCell
    first: float = 0.0
    warm: float | None = None
    tuned: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(
            {
                "cell": self.cell.model_dump(mode="json"),
                "first": self.first,
                "warm": self.warm,
                "tuned": dict(self.tuned),
            }
        )

    @staticmethod
    def read(line: str) -> Timed:
        found = json.loads(line)
        cell = ProbeCell.model_validate_json(json.dumps(found["cell"]))
        return Timed(cell, found["first"], found["warm"], found["tuned"])


def timed(name: str, subject: Subject, warm: bool = False) -> Timed:
    """Probe one property; with ``warm`` twice, since the first pass compiles and autotunes. The first pass's cell counts.

    Both passes hold everything that the property needs: the kernel's calls, the oracle's, comparisons on the CPU.
    """
    begin = perf_counter()
    cell = probe(name, subject)
    first = perf_counter() - begin
    if not warm or cell.sentence.startswith("crashed"):
        return Timed(cell, first)
    begin = perf_counter()
    probe(name, subject)
    return Timed(cell, first, perf_counter() - begin)
