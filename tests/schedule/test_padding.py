"""Padding as a plan: columns, padding rows, and a mask that lets a row's tokens through and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from replaycheck.faults.plans import mask_dropped
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.padding import compute
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import PAD, Columns, Compute, Row, Schedule
from replaycheck.schema.arm import Compiler, Padding, Rollback, Side
from replaycheck.schema.suite import Suite, expand
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import GROUPS, WINDOWS
from replaycheck.state_probes.policies import POLICIES, arm_of
from tests.schedule.prefix.groups import busy_groups
from tests.schedule.trees import arm, fork, rows

PADDINGS = st.builds(
    Padding, side=st.sampled_from(Side), columns=st.sampled_from((1, 2, 7, 16, 64)), rows=st.integers(1, 5)
)
MATRIX = {
    "history": ["chunk"],
    "tail": ["chunk"],
    "answers": ["decoded"],
    "pool": ["bf16"],
    "policy": {"every": 64, "turn_end": True},
}


def padded(group: Group, policy: str, padding: Padding) -> Schedule:
    return compile_schedule(group, arm_of(Compiler.WARM, POLICIES[policy]).model_copy(update={"padding": padding}))


def some_rows(*lengths: int) -> list[Row]:
    (first, *_) = rows(compile_schedule(fork(), arm(Compiler.WARM)))
    return [replace(first, a=10, b=10 + length, columns=None) for length in lengths]


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        (Side.LEFT, [Columns(3, 0, 3, 8), Columns(7, 0, 7, 8), Columns(0, 0, 0, 8)]),
        (Side.RIGHT, [Columns(0, 3, 0, 5), Columns(0, 7, 0, 1), Columns(0, 0, 0, 8)]),
    ],
)
def test_every_row_is_as_wide_as_the_widest_and_the_mask_is_where_its_tokens_are(
    side: Side, expected: list[Columns]
) -> None:
    made = compute(some_rows(5, 1, 8), Padding(side=side, columns=4))
    assert [row.columns for row in made.rows] == expected
    assert made.padding == 0


@pytest.mark.parametrize(("count", "of", "spare"), [(1, 4, 3), (3, 4, 1), (4, 4, 0), (5, 4, 3), (5, 1, 0)])
def test_a_pass_is_padded_to_a_multiple_of_rows(count: int, of: int, spare: int) -> None:
    assert compute(some_rows(*[2] * count), Padding(side=Side.LEFT, rows=of)).padding == spare


@pytest.mark.parametrize(("tokens", "width"), [(15, 16), (16, 16), (17, 32)])
def test_the_width_is_the_next_multiple_of_the_columns(tokens: int, width: int) -> None:
    (row,) = compute(some_rows(tokens), Padding(side=Side.RIGHT, columns=16)).rows
    assert row.columns is not None
    assert tokens + row.columns.left + row.columns.right == width


def test_without_padding_a_pass_is_its_rows() -> None:
    assert compute(some_rows(5, 1), None) == Compute(tuple(some_rows(5, 1)))
    assert compute(some_rows(3, 5), None).padding == 0


@settings(max_examples=60, deadline=None)
@given(group=busy_groups(), policy=st.sampled_from(list(POLICIES)), padding=PADDINGS)
def test_padding_changes_columns_and_nothing_else_of_a_plan(group: Group, policy: str, padding: Padding) -> None:
    schedule = padded(group, policy, padding)
    plain = compile_schedule(group, arm_of(Compiler.WARM, POLICIES[policy]))
    stripped = [
        replace(step, padding=0, rows=tuple(replace(row, columns=None) for row in step.rows))
        if isinstance(step, Compute)
        else step
        for step in schedule.steps
    ]
    assert tuple(stripped) == plain.steps
    assert simulate(schedule).problems == simulate(plain).problems == []
    for row in rows(schedule):
        assert schedule.requests[row.request].seen_of(row) == schedule.requests[row.request].run_of(row)


@settings(max_examples=40, deadline=None)
@given(padding=PADDINGS, name=st.sampled_from(list(GROUPS)), policy=st.sampled_from(list(POLICIES)))
def test_a_mask_that_lets_padding_through_is_a_problem_wherever_there_is_padding(
    padding: Padding, name: str, policy: str
) -> None:
    wrong = mask_dropped(right := padded(GROUPS[name], policy, padding))
    if any(row.columns and (row.columns.left or row.columns.right) for row in rows(right)):
        assert simulate(wrong).problems
    else:
        assert simulate(wrong).problems == []


@pytest.mark.parametrize("side", Side, ids=str)
def test_a_mask_that_is_one_column_off_holds_a_token_of_padding(side: Side) -> None:
    """Off by one at a turn that continues a state, not in the first."""
    schedule = padded(GROUPS["conversation"], "grid64+turn", Padding(side=side, columns=64))
    step = -1 if side is Side.LEFT else 1
    number, later = next(
        (i, each) for i, each in enumerate(schedule.steps) if isinstance(each, Compute) and each.rows[0].restored
    )
    (row,) = later.rows
    assert row.columns is not None
    shifted = replace(row.columns, first=row.columns.first + step, last=row.columns.last + step)
    moved = replace(later, rows=(replace(row, columns=shifted),))
    wrong = replace(schedule, steps=(*schedule.steps[:number], moved, *schedule.steps[number + 1 :]))
    assert PAD in wrong.requests[row.request].seen_of(moved.rows[0])
    assert any("means" in problem or "a row from" in problem for problem in simulate(wrong).problems)


@pytest.mark.parametrize("method", Rollback, ids=str)
def test_windows_are_padded_like_other_rows(method: Rollback) -> None:
    plain = arm_of(Compiler.WARM, POLICIES["grid64+turn"]).model_copy(update={"rollback": method})
    schedule = compile_schedule(WINDOWS, plain.model_copy(update={"padding": Padding(side=Side.LEFT, columns=8)}))
    assert simulate(schedule).problems == []
    windows = [row for row in rows(schedule) if row.window is not None]
    assert windows and all(row.columns and row.columns.left == 8 - (row.b - row.a) for row in windows)


def test_a_matrix_pads_warm_arms_alone_and_crosses_its_paddings() -> None:
    paddings = [{"side": "left"}, {"side": "right", "columns": 32, "rows": 4}]
    record = {"schema": "replaycheck.suite/1", "name": "pads", "traces": ["suite:quick"]}
    suite = Suite.model_validate(record | {"matrix": [MATRIX | {"effects": ["exact", "total"], "padding": paddings}]})
    arms, cells = expand(suite)
    assert {each.padding.slug for each in arms if each.padding} == {"left16", "right32x4"}
    assert all((each.padding is not None) is (each.compiler is Compiler.WARM) for each in arms)
    assert [cell.candidate.rpartition("/")[2] for cell in cells] == 2 * ["pad-left16", "pad-right32x4"]
    assert len({cell.reference for cell in cells}) == 2


@pytest.mark.parametrize("compiler", [Compiler.COLD, Compiler.SPLIT, Compiler.SPLIT_ROUNDED], ids=str)
def test_a_reference_without_padding_is_what_padding_is_held_against(compiler: Compiler) -> None:
    fields = arm(compiler).model_dump() | {"padding": {"side": "left"}}
    with pytest.raises(ValidationError, match="padding is of a warm arm"):
        type(arm(compiler)).model_validate(fields)
