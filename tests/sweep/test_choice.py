"""Options of a sweep: what is allowed, and the arms and cells that they become."""

from __future__ import annotations

import pytest

from replaycheck.errors import UsageError
from replaycheck.schema.arm import Activation, Compiler, Effect, PoolDtype
from replaycheck.schema.suite import Suite
from replaycheck.sweep.choice import Choice, choice

SUITE = Suite.model_validate(
    {
        "schema": "replaycheck.suite/1",
        "name": "s",
        "traces": ["suite:quick"],
        "matrix": [
            {
                "history": ["chunk"],
                "tail": ["chunk"],
                "answers": ["prefilled"],
                "pool": ["fp32"],
                "policy": {"every": 64},
            }
        ],
    }
)


def asked(
    intervals: str = "64,end", pools: str = "fp32,bf16", at: str = "inside", answers: str = "prefilled"
) -> Choice:
    return choice(intervals, pools, at, answers)


def test_lists_lose_repetitions_and_keep_their_order() -> None:
    found = asked("end, 0128,64,128", "bf16,fp32,bf16", "outside,inside")
    assert found.intervals == ("end", "128", "64")
    assert found.pools == (PoolDtype.BF16, PoolDtype.FP32)
    assert found.activations == (Activation.OUTSIDE, Activation.INSIDE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"intervals": "65"}, "'65': states inside a prompt lie on the chunk's grid"),
        ({"intervals": "0"}, "a multiple of 64"),
        ({"intervals": "-64"}, "a multiple of 64"),
        ({"intervals": "٦٤"}, "a multiple of 64"),
        ({"intervals": str(64 * 2**20)}, "up to 1048576"),
        ({"intervals": "64,,end"}, "has an empty entry"),
        ({"pools": "fp8"}, "'fp8' is unknown; give one or several of 'fp32', 'bf16' or 'fp16'"),
        ({"at": "everywhere"}, "'everywhere' is unknown; give one or several of 'inside' or 'outside'"),
    ],
)
def test_bad_options_say_what_is_allowed(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(**given)


def test_every_point_has_its_cells_and_a_warm_arm() -> None:
    for answers in ("prefilled", "decoded"):
        one = asked(at="inside,outside", answers=answers)
        arms, cells = one.arms_and_cells(SUITE)
        names, by_name = {arm.name: arm for arm in arms}, {cell.name: cell for cell in cells}
        points = one.points()
        assert len(points) == 8
        for point in points:
            assert {by_name[name].effect for name in point.cells.values()} == set(point.cells)
            warm = names[point.warm]
            assert (warm.compiler, warm.pool, warm.activation) == (Compiler.WARM, point.pool, point.activation)
            assert warm.policy == point.policy
            assert by_name[point.cells[Effect.TOTAL]].candidate == point.warm
            assert names[by_name[point.cells[Effect.GRID]].reference].activation is point.activation


def test_moving_the_activation_is_one_cell_a_pool_between_cold_arms() -> None:
    one = asked(at="inside,outside")
    arms, cells = one.arms_and_cells(SUITE)
    names = {arm.name: arm for arm in arms}
    moved = [cell for cell in cells if cell.effect is Effect.ACTIVATION]
    assert [cell.name for cell in moved] == [one.activation_cell(pool) for pool in one.pools]
    for cell in moved:
        sides = [names[cell.reference], names[cell.candidate]]
        assert [side.activation for side in sides] == [Activation.INSIDE, Activation.OUTSIDE]
        assert all(side.compiler is Compiler.COLD for side in sides)


def test_without_the_outside_there_is_no_such_cell() -> None:
    _, cells = asked().arms_and_cells(SUITE)
    assert {cell.effect for cell in cells} == {Effect.GRID, Effect.STATE, Effect.TOTAL}
