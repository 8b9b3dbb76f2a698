"""A request under way: names for its states, and how a state of a piece came to be."""

from __future__ import annotations

import pytest

from replaycheck.schedule.prefix.job import Job, Piece
from replaycheck.schedule.speculation.windows import Window
from replaycheck.schedule.steps import Part, Written


def test_states_at_one_position_are_counted_up() -> None:
    job = Job(3, (), prompt=10, end=20)
    names = [job.checkpoint(position, Written.FINAL).name for position in (5, 5, 6, 5)]
    assert names == ["r3@5", "r3@5.1", "r3@6", "r3@5.2"]


@pytest.mark.parametrize(
    ("a", "b", "position", "written"),
    [
        (0, 64, 64, Written.FINAL_GRID),
        (100, 164, 164, Written.FINAL_GRID),  # the grid is counted from the start of the extend
        (0, 65, 65, Written.FINAL),
        (100, 128, 128, Written.FINAL),
        (0, 128, 64, Written.INTERIOR_GRID),
        (36, 164, 100, Written.INTERIOR_GRID),
        (0, 130, 128, Written.INTERIOR),
        (64, 192, 191, Written.INTERIOR_GRID),
    ],
)
def test_a_state_of_a_prompt_tells_where_it_lies_and_whether_its_extend_ends_on_the_grid(
    a: int, b: int, position: int, written: Written
) -> None:
    assert Piece(a, b, Part.TAIL).written(position) is written
    assert Piece(a, b, Part.ANSWER).written(position) is Written.DECODE


def test_a_piece_with_a_window_runs_its_rejected_drafts_too() -> None:
    assert Piece(4, 6, Part.ANSWER, Window(0, (1, 2, 3), 1)).size == 4
    assert Piece(4, 6, Part.ANSWER).size == 2
