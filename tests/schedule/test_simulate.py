"""The simulator objects to each way in which a plan can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import NULL_SLOT, Clear, Commit, Compute, Copy, CopyReason, Row, Schedule, Step
from replaycheck.schema.arm import Compiler
from tests.schedule.trees import arm, fork

Change = Callable[[Step], Step]


def warm() -> Schedule:
    return compile_schedule(fork(), arm(Compiler.WARM, "all"))


def spoil(schedule: Schedule, change: Change) -> Schedule:
    return replace(schedule, steps=tuple(change(step) for step in schedule.steps))


def rows_with(change: Callable[[Row], Row]) -> Change:
    return lambda step: replace(step, rows=tuple(map(change, step.rows))) if isinstance(step, Compute) else step


def _to_null(step: Step) -> Step:
    return replace(step, destination=NULL_SLOT) if isinstance(step, Copy) and step.reason is CopyReason.FORK else step


def _clear_null(step: Step) -> Step:
    return Clear(NULL_SLOT) if isinstance(step, Clear) else step


def _unwritten(step: Step) -> Step:
    return replace(step, source=99) if isinstance(step, Copy) and step.reason is CopyReason.RESTORE else step


def _commit_elsewhere(step: Step) -> Step:
    return replace(step, slot=1) if isinstance(step, Commit) else step


def _chunk_early(row: Row) -> Row:
    return replace(row, snapshots=tuple(replace(s, chunk=s.chunk - 1) for s in row.snapshots))


def _conv_early(row: Row) -> Row:
    return replace(row, snapshots=tuple(replace(s, conv_end=s.conv_end - 1) for s in row.snapshots))


def _starts_late(row: Row) -> Row:
    return replace(row, a=row.a + 1) if row.restored else row


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(_to_null, "writes the null slot", id="fork-into-the-null-slot"),
        pytest.param(_clear_null, "writes the null slot", id="clear-of-the-null-slot"),
        pytest.param(_unwritten, "reads slot 99, which nothing wrote", id="restore-from-an-unwritten-slot"),
        pytest.param(_commit_elsewhere, "means", id="commit-of-another-slot"),
        pytest.param(rows_with(_chunk_early), "means 64 tokens; slot 2 holds 0", id="chunk-index-one-early"),
        pytest.param(rows_with(_conv_early), "with a conv window that ends at 63", id="conv-window-one-early"),
        pytest.param(rows_with(_starts_late), "a row from 65 reads slot 1 with 64 tokens", id="row-starts-one-late"),
    ],
)
def test_a_wrong_plan_is_a_problem(change: Change, complaint: str) -> None:
    assert simulate(warm()).problems == []
    assert any(complaint in problem for problem in simulate(spoil(warm(), change)).problems)


def test_a_slot_that_nothing_wrote_is_read_as_the_state_of_no_tokens() -> None:
    """A first row that begins at token 0 has one thing wrong with it, and no second."""
    schedule = warm()
    first = next(step.rows[0] for step in schedule.steps if isinstance(step, Compute))
    alone = replace(schedule, steps=(Compute((replace(first, source=99, snapshots=()),)),))
    assert simulate(alone).problems == ["step 0: reads slot 99, which nothing wrote"]


def test_contents_of_slots_are_the_tokens_of_their_checkpoints() -> None:
    schedule = warm()
    slots = {step.checkpoint: step.slot for step in schedule.steps if isinstance(step, Commit)}
    contents = simulate(schedule).slots
    for name, checkpoint in schedule.checkpoints().items():
        held = contents[slots[name]]
        assert held.tokens == schedule.requests[checkpoint.request].tokens[: checkpoint.position]
        assert held.conv_end == checkpoint.position
    assert len(slots) == len(schedule.checkpoints()) > 4
