"""Everything that a worker keeps of a group once its arms have run: the one call between replay and disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Arm, Cell, Experiment
from replaycheck.schema.frames import decoded, in_order
from replaycheck.schema.group import GroupRecord

from .observations import observations
from .pairs import pairs
from .record import ArmRecording
from .restores import restores
from .said import Said
from .scored import Scored
from .totals import arm_result, audit_results

__all__ = ["GroupComparison", "compare_group"]


@dataclass(frozen=True)
class GroupComparison:
    """The tables observations, pairs and restores of a group, and its share of the sums."""

    tables: Mapping[str, pa.Table]
    record: GroupRecord


def compare_group(
    group: str,
    arms: Sequence[Arm],
    cells: Sequence[Cell],
    recordings: Mapping[str, ArmRecording],
    free: Mapping[str, ArmRecording] | None = None,
) -> GroupComparison:
    """Compare the arms of one group, or of the groups of one part; tables in key order.

    Args:
        recordings: by the arm's name, for every arm of ``arms`` and ``cells``. Counters, audits and restores are theirs.
        free: of the arms that ran freely as well; a cell is compared if both of its arms did.
    """
    missing = {arm.name for arm in arms} - recordings.keys()
    if missing:
        raise InternalError(f"group {group!r}: no recording of the arm {min(missing)!r}")
    tables = _said(cells, {arm.name: recordings[arm.name] for arm in arms}, "forced")
    if free:
        ran = [cell for cell in cells if cell.reference in free and cell.candidate in free]
        freely = _said(ran, free, "free")
        tables = {name: in_order(name, [decoded(rows), decoded(freely[name])]) for name, rows in tables.items()}
    return GroupComparison(
        tables=tables | {"restores": restores(cells, recordings)},
        record=GroupRecord(
            group=group,
            arms=tuple(arm_result(arm, recordings[arm.name]) for arm in arms),
            audits=tuple(row for arm in arms for row in audit_results(recordings[arm.name])),
        ),
    )


def _said(cells: Sequence[Cell], recordings: Mapping[str, ArmRecording], experiment: Experiment) -> dict[str, pa.Table]:
    """What the arms said in one experiment, and the pairs of the cells."""
    scored = {name: Scored.of(recording) for name, recording in recordings.items()}
    said = Said.of(list(scored.values()))
    return {
        "observations": observations(list(scored.values()), said, experiment),
        "pairs": pairs(cells, scored, said, experiment),
    }
