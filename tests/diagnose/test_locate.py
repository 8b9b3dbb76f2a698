"""The first wrong step: which operation, whose state, at which position, in which layer and head."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replaycheck.diagnose.again import Case, replay
from replaycheck.diagnose.trail import Op
from replaycheck.faults.cell import SmallCell

CaseOf = Callable[..., Case]


def test_a_run_without_a_fault_has_no_wrong_step(case_of: CaseOf) -> None:
    found = replay(case_of(None))
    assert found.wrong is None
    assert len(found.candidate.steps) > 100


@pytest.mark.parametrize(
    ("fault", "op", "position"),
    [
        ("conv-late", Op.COMMIT, 64),
        ("bf16-snapshot", Op.SNAPSHOT, 64),
        ("truncated", Op.STORE, 134),
        ("beta-raw", Op.COMPUTE, 24),
        ("copies-rounded", Op.COPY, 154),
        ("tail-skipped", Op.LOAD, 209),
    ],
)
def test_the_operation_and_its_position(case_of: CaseOf, fault: str, op: Op, position: int) -> None:
    wrong = replay(case_of(fault)).wrong
    assert wrong is not None
    assert (wrong.key.op, wrong.key.position) == (op, position)


def test_one_head_of_the_first_layer_and_all_that_follow_are_named(case_of: CaseOf) -> None:
    wrong = replay(case_of("beta-replicated")).wrong
    assert wrong is not None
    assert "KDA layer 0, head 1; KDA layers 1, 3, both heads" in wrong.sentence


def test_only_the_convolution_is_named_where_only_it_differs(case_of: CaseOf) -> None:
    wrong = replay(case_of("conv-late")).wrong
    assert wrong is not None
    assert not wrong.places
    assert wrong.conv == (0, 1, 3)


def test_other_cuts_in_an_fp32_pool_are_no_wrong_step(case_of: CaseOf) -> None:
    from replaycheck.faults.shipped import FAULTS

    wide: SmallCell = FAULTS["rounded-each-step"].silent_on[0]
    assert replay(case_of("rounded-each-step", wide)).wrong is None


def test_steps_are_aligned_by_request_and_position_whatever_their_slots(case_of: CaseOf) -> None:
    found = replay(case_of(None))
    keys = {seen.key for seen in found.reference.steps}
    loads = [seen for seen in found.candidate.steps if seen.key.op is Op.LOAD]
    assert all(seen.key in keys for seen in loads)
    slots = [
        (seen.row.source, next(o.row.source for o in found.reference.steps if o.key == seen.key and o.row))
        for seen in loads
        if seen.row
    ]
    assert any(a != b for a, b in slots)
