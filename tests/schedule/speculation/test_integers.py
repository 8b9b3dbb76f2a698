"""The engines' integers against worked examples and against a count by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.schedule.speculation.integers import (
    BlockCopy,
    RecoverPlan,
    align_postprocess,
    recover_plan,
    running_column,
    track_step,
)


@pytest.mark.parametrize(
    ("before", "kept", "step"), [(254, 4, 1), (256, 3, None), (254, 1, None), (255, 1, 0), (250, 6, 5)]
)
def test_the_step_of_a_crossing(before: int, kept: int, step: int | None) -> None:
    assert track_step(before, kept, 256) == step


@given(st.integers(0, 5000), st.integers(1, 16), st.integers(16, 600))
def test_a_crossing_is_a_kept_token_whose_state_sits_on_the_interval(before: int, kept: int, interval: int) -> None:
    """Report B12: a snapshot of a position that was drafted and rejected holds a token that never was."""
    step = track_step(before, kept, interval)
    on_the_way = [t for t in range(kept) if (before + t + 1) % interval == 0]
    assert on_the_way == ([] if step is None else [step])


@pytest.mark.parametrize(
    ("computed", "scheduled", "drafts", "accepted", "copy"),
    [
        (60, 5, 2, 3, BlockCopy(3, 1)),
        (30, 3, 0, 2, None),
        (31, 1, 0, 1, BlockCopy(1, 0)),
        (63, 4, 3, 4, BlockCopy(3, 0)),
    ],
)
def test_the_copy_of_an_aligned_block(
    computed: int, scheduled: int, drafts: int, accepted: int, copy: BlockCopy | None
) -> None:
    assert align_postprocess(computed, scheduled, drafts, accepted, 16) == copy


@given(st.integers(0, 400), st.integers(0, 7), st.data())
def test_an_aligned_copy_saves_the_boundary_that_was_reached(computed: int, drafts: int, data: st.DataObject) -> None:
    block, kept = data.draw(st.integers(8, 40)), data.draw(st.integers(1, drafts + 1))
    copy = align_postprocess(computed, 1 + drafts, drafts, kept, block)
    reached = [t for t in range(kept) if (computed + t + 1) % block == 0]
    assert [copy.bias] == reached if copy else not reached
    assert copy is None or (copy.destination + 1) * block == computed + copy.bias + 1


@pytest.mark.parametrize(
    ("computed", "accepted", "plan"),
    [
        (2044, 4, RecoverPlan(4, 0, 0, 4)),
        (2046, 4, RecoverPlan(4, 1, 0, 2)),
        (2047, 1, RecoverPlan(1, 0, 0, 1)),
        (2048, 1, RecoverPlan(1, 1, None, 0)),
        (8180, 4, RecoverPlan(4, 3, None, 0)),
        (8188, 4, RecoverPlan(4, 3, 3, 4)),
        (8190, 4, RecoverPlan(4, 4, 3, 2)),
        (8192, 1, RecoverPlan(1, 4, None, 0)),
        (100, 0, RecoverPlan(0, None, None, 0)),
        (100, -1, RecoverPlan(0, None, None, 0)),
        (100, 99, RecoverPlan(8, 0, None, 0)),
    ],
)
def test_recoverssms_plan(computed: int, accepted: int, plan: RecoverPlan) -> None:
    assert recover_plan(computed, accepted, 8, 8, 2048, 5) == plan


def test_more_accepted_than_run_keeps_what_was_run() -> None:
    assert recover_plan(10, 5, 3, 8, 2048, 1).length == 3


@pytest.mark.parametrize(("after", "column"), [(0, 0), (1, 0), (16, 0), (17, 1), (32, 1)])
def test_a_state_on_a_boundary_belongs_to_the_block_it_completes(after: int, column: int) -> None:
    assert running_column(after, 16) == column
