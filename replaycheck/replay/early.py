"""``run --fail-fast``: stop at the first part that fails a gate whatever else the run would find.

Stopping early on failure is always allowed; on a pass it would inflate errors. So only gates with a
constant bound are looked at whose value can't fall with more evidence: counts, and largest numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from replaycheck.compare.spill import Spill
from replaycheck.compare.summarise import Summariser
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.gates.metrics import METRICS
from replaycheck.gates.tables import InMemory
from replaycheck.schema.arm import Cell
from replaycheck.schema.gate import Gate

from .worker import Done

__all__ = ["Watch"]


@dataclass
class Watch:
    """Looks at each part as it gets ready. stopped: why the run ends here; "" as long as it goes on."""

    cells: tuple[Cell, ...]
    gates: tuple[LoadedGates, ...]
    stopped: str = ""

    def fails(self, done: Done) -> bool:
        """Whether a part fails for good."""
        judged = judge([_final(loaded) for loaded in self.gates if _final(loaded).gates.gate], self._evidence(done))
        failed = next((gate for gate in judged if gate.verdict == "fail"), None)
        if failed is not None:
            self.stopped = f"gate {failed.file}/{failed.name} failed in {done.record.group}: {failed.sentence}"
        return failed is not None

    def _evidence(self, done: Done) -> Evidence:
        tables = {name: _decoded(data) for name, data in done.tables.items()}
        with TemporaryDirectory(prefix="replaycheck-part-") as scratch, Spill(Path(scratch)) as spill:
            summary = Summariser(self.cells, spill)
            summary.add(done.record.group, tables["pairs"], tables["observations"], tables["restores"])
            cells = summary.finish({arm.name: arm for arm in done.record.arms})
            seen = done.record.arms, cells, (), done.record.audits, summary.restores.conv, spill.traces
            return Evidence(*seen, None, InMemory(tables))


def _final(loaded: LoadedGates) -> LoadedGates:
    """The file with the gates that one part can fail for good."""
    gates = tuple(gate for gate in loaded.gates.gate if _can_only_rise(gate))
    return replace(loaded, gates=loaded.gates.model_copy(update={"gate": gates}), lines=())


def _can_only_rise(gate: Gate) -> bool:
    metric = METRICS[gate.metric]
    return metric.grows and metric.reads != "probes" and gate.bound is not None


def _decoded(part: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(part))
