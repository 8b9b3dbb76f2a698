"""Everything that a worker keeps of a group once its arms have run: the one call between replay and disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.group import GroupRecord
from replaycheck.schema.tables import TABLES

from .observations import observe
from .pairs import pair
from .record import ArmRecording
from .restores import compare_restores
from .totals import arm_result, audit_results

__all__ = ["GroupComparison", "compare_group"]


@dataclass(frozen=True)
class GroupComparison:
    """The tables observations, pairs and restores of a group, and its share of the sums."""

    tables: Mapping[str, pa.Table]
    record: GroupRecord


def compare_group(
    group: str, arms: Sequence[Arm], cells: Sequence[Cell], recordings: Mapping[str, ArmRecording]
) -> GroupComparison:
    """Compare the arms of one group. ``recordings``: by the arm's name, for every arm of ``arms`` and ``cells``."""
    missing = {arm.name for arm in arms} - recordings.keys()
    if missing:
        raise InternalError(f"group {group!r}: no recording of the arm {min(missing)!r}")
    sides = [(cell, recordings[cell.reference], recordings[cell.candidate]) for cell in cells]
    return GroupComparison(
        tables={
            "observations": _joined("observations", [observe(recordings[arm.name]) for arm in arms]),
            "pairs": _joined("pairs", [pair(*side) for side in sides]),
            "restores": _joined("restores", [compare_restores(*side) for side in sides]),
        },
        record=GroupRecord(
            group=group,
            arms=tuple(arm_result(arm, recordings[arm.name]) for arm in arms),
            audits=tuple(row for arm in arms for row in audit_results(recordings[arm.name])),
        ),
    )


def _joined(table: str, parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts) if parts else TABLES[table].empty_table()
