"""The rows of one arm, or of one cell, as a group's tables have them."""

from __future__ import annotations

import pyarrow as pa

from replaycheck.compare.observations import observations
from replaycheck.compare.record import ArmRecording
from replaycheck.compare.restores import restores
from replaycheck.compare.said import Said
from replaycheck.compare.scored import Scored
from replaycheck.schema.arm import Cell


def observe(recording: ArmRecording, experiment: str = "forced") -> pa.Table:
    """OBSERVATIONS of one arm."""
    arm = Scored.of(recording)
    return observations([arm], Said.of([arm]), experiment)


def compare_restores(cell: Cell, reference: ArmRecording, candidate: ArmRecording) -> pa.Table:
    """RESTORES of one cell."""
    return restores([cell], {cell.reference: reference, cell.candidate: candidate})
