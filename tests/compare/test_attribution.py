"""Steps of a chain of arms add up to the whole, and what is left is the interaction."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from replaycheck.compare.attribution import AttributionSums, chains
from replaycheck.schema.arm import Answers, Arm, CheckpointPolicy, Compiler, Kernel, PoolDtype
from replaycheck.schema.result import Attribution

BF16, FP32 = PoolDtype.BF16, PoolDtype.FP32


def arm(compiler: Compiler, pool: PoolDtype = BF16, history: Kernel = Kernel.CHUNK, ranks: int = 1) -> Arm:
    return Arm(
        compiler=compiler,
        history=history,
        tail=Kernel.CHUNK,
        answers=Answers.PREFILLED,
        pool=pool,
        policy=CheckpointPolicy(every=64),
        recipe="sglang",
        tensor_parallel=ranks,
    )


COLD, COLD32 = arm(Compiler.COLD), arm(Compiler.COLD, FP32)
SPLIT, WARM32, WARM = arm(Compiler.SPLIT, FP32), arm(Compiler.WARM, FP32), arm(Compiler.WARM)


def observed(*said: tuple[Arm, list[float]]) -> pa.Table:
    """Log-probabilities of two positions of one turn, then of two traces."""
    rows = [
        {
            "arm": a.name,
            "experiment": "forced",
            "trace": f"t{i // 2}",
            "branch": 0,
            "turn": 0,
            "position": i,
            "logprob": v,
        }
        for a, values in said
        for i, v in enumerate(values)
    ]
    return pa.Table.from_pylist(rows)


def found(arms: list[Arm], *tables: pa.Table) -> tuple[Attribution, ...]:
    sums = AttributionSums(arms)
    for table in tables:
        sums.add(table)
    return sums.finish()


def test_each_switch_has_its_size_and_the_rest_is_interaction() -> None:
    table = observed(
        (COLD, [-1.0, -2.0, -3.0]),
        (COLD32, [-1.0, -2.0, -3.0]),
        (SPLIT, [-1.3, -2.0, -3.0]),
        (WARM32, [-1.3, -2.0, -3.0]),
        (WARM, [-1.2, -2.4, -3.0]),
    )
    one = next(each for each in found([COLD, COLD32, SPLIT, WARM32, WARM], table) if each.candidate == WARM.name)
    assert [step.switch for step in one.steps] == ["pool of the cold run", "grid", "snapshot", "pool dtype"]
    squares = [0.0, 0.09 / 3, 0.0, (0.01 + 0.16) / 3]
    assert [step.square for step in one.steps] == pytest.approx(squares)
    assert one.total**2 == pytest.approx((0.04 + 0.16) / 3)
    assert one.total**2 == pytest.approx(sum(squares) + one.interaction)
    assert one.interaction < 0
    assert (one.positions, one.traces) == (3, 2)


def test_an_arm_that_isnt_there_makes_two_steps_one() -> None:
    (chain,) = chains([COLD, SPLIT, WARM])
    assert chain.arms == (COLD.name, SPLIT.name, WARM.name)
    assert chain.switches == ("pool of the cold run and grid", "snapshot and pool dtype")


def test_a_warm_arm_without_its_cold_arm_has_no_chain() -> None:
    assert chains([SPLIT, WARM]) == ()
    assert found([SPLIT, WARM], observed((SPLIT, [-1.0]), (WARM, [-1.1]))) == ()


def test_the_kernel_of_the_history_and_ranks_are_switches() -> None:
    mixed = [arm(each, BF16, Kernel.RECURRENT) for each in (Compiler.COLD, Compiler.WARM)]
    sharded = arm(Compiler.WARM, ranks=2)
    by_name = {chain.arms[-1]: chain for chain in chains([COLD, *mixed, WARM, sharded])}
    assert by_name[mixed[1].name].switches[0] == "kernel switch"
    assert by_name[sharded.name].switches[-1] == "sharding"


def test_parts_add_up_whatever_their_order() -> None:
    a = observed((COLD, [-1.0]), (WARM, [-1.5]))
    b = observed((WARM, [-2.0, -3.0]), (COLD, [-2.0, -3.5]))
    (one,), (other,) = found([COLD, WARM], a, b), found([COLD, WARM], b, a)
    assert one == other
    assert math.isclose(one.total, math.sqrt((0.25 + 0 + 0.25) / 3))


def test_positions_without_a_finite_value_are_left_out() -> None:
    (one,) = found([COLD, WARM], observed((COLD, [-1.0, -1.0]), (WARM, [float("nan"), -2.0])))
    assert one.positions == 1
    assert one.total == 1.0
