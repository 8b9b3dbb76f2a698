"""The matrix of a report: each cell of a shipped suite has a place of its own."""

from __future__ import annotations

import pytest

from replaycheck import assets
from replaycheck.compare.record import ArmRecording
from replaycheck.compare.totals import arm_result
from replaycheck.report.matrix import _key
from replaycheck.schema.suite import expand
from replaycheck.traces.suite import parse_suite


@pytest.mark.parametrize("name", sorted(assets.presets()))
def test_no_two_cells_of_a_suite_share_a_place(name: str) -> None:
    """Two that did would hide one of them, and the terminal's table couldn't say which."""
    arms, cells = expand(parse_suite(assets.presets()[name]))
    by_name = {arm.name: arm for arm in arms}
    places = [
        (_key(arm_result(arm := by_name[cell.candidate], ArmRecording("t", (), ()))), arm.pool, cell.effect)
        for cell in cells
    ]
    assert len(set(places)) == len(places)
