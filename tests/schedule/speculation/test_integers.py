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
from replaycheck.state_probes.tables import COMMITS, COPIES, VERIFIES


@pytest.mark.parametrize(("entry", "step"), VERIFIES, ids=str)
def test_the_step_of_a_crossing(entry: tuple[int, int, int], step: int | None) -> None:
    assert track_step(*entry) == step


@given(st.integers(0, 5000), st.integers(1, 16), st.integers(16, 600))
def test_a_crossing_is_a_kept_token_whose_state_sits_on_the_interval(before: int, kept: int, interval: int) -> None:
    """Report B12: a snapshot of a position that was drafted and rejected holds a token that never was."""
    step = track_step(before, kept, interval)
    on_the_way = [t for t in range(kept) if (before + t + 1) % interval == 0]
    assert on_the_way == ([] if step is None else [step])


@pytest.mark.parametrize(("entry", "copy"), COPIES, ids=str)
def test_the_copy_of_an_aligned_block(entry: tuple[int, int, int, int, int], copy: tuple[int, int] | None) -> None:
    assert align_postprocess(*entry) == (None if copy is None else BlockCopy(*copy))


@given(st.integers(0, 400), st.integers(0, 7), st.data())
def test_an_aligned_copy_saves_the_boundary_that_was_reached(computed: int, drafts: int, data: st.DataObject) -> None:
    block, kept = data.draw(st.integers(8, 40)), data.draw(st.integers(1, drafts + 1))
    copy = align_postprocess(computed, 1 + drafts, drafts, kept, block)
    reached = [t for t in range(kept) if (computed + t + 1) % block == 0]
    assert [copy.bias] == reached if copy else not reached
    assert copy is None or (copy.destination + 1) * block == computed + copy.bias + 1


@pytest.mark.parametrize(("entry", "plan"), COMMITS, ids=str)
def test_recoverssms_plan(
    entry: tuple[int, int, int, int, int, int], plan: tuple[int, int | None, int | None, int]
) -> None:
    assert recover_plan(*entry) == RecoverPlan(*plan)


def test_more_accepted_than_run_keeps_what_was_run() -> None:
    assert recover_plan(10, 5, 3, 8, 2048, 1).length == 3


@pytest.mark.parametrize(("after", "column"), [(0, 0), (1, 0), (16, 0), (17, 1), (32, 1)])
def test_a_state_on_a_boundary_belongs_to_the_block_it_completes(after: int, column: int) -> None:
    assert running_column(after, 16) == column


@pytest.mark.parametrize(("after", "column"), [(0, 0), (1, 0), (2, 1)])
def test_a_block_may_be_one_token(after: int, column: int) -> None:
    assert running_column(after, 1) == column


def test_the_final_column_is_never_past_the_table() -> None:
    """8,193 tokens end in column 4 of blocks of 2,048; a table of four has none."""
    assert recover_plan(8192, 1, 1, 8, 2048, 5).final == 4
    assert recover_plan(8192, 1, 1, 8, 2048, 4).final == 3
