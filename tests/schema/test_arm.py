"""Arms that can't exist are refused in words; arms that differ have names that differ."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from pydantic import ValidationError

from replaycheck.schema.arm import (
    Activation,
    Answers,
    Arm,
    Cell,
    CheckpointPolicy,
    Compiler,
    Effect,
    Kernel,
    Padding,
    PoolDtype,
    Rollback,
    Side,
)
from replaycheck.schema.problems import problems

WARM: dict[str, Any] = {
    "compiler": Compiler.WARM,
    "history": Kernel.CHUNK,
    "tail": Kernel.CHUNK,
    "answers": Answers.DECODED,
    "pool": PoolDtype.BF16,
    "policy": CheckpointPolicy(turn_end=True),
    "recipe": "exact",
}
LAGGING: dict[str, Any] = {"rollback": Rollback.REPLAY, "ring": 8, "ring_lag": True}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"compiler": Compiler.SPLIT, "padding": Padding(side=Side.LEFT)}, "padding is of a warm arm"),
    (LAGGING | {"ring": None}, "ring_lag is of rollback replay with a ring"),
    (LAGGING | {"rollback": Rollback.COPY}, "ring_lag is of rollback replay with a ring"),
    (LAGGING | {"tensor_parallel": 2}, "a lagging ring isn't sharded; leave ring_lag or tensor_parallel out"),
    ({"compiler": Compiler.COLD, "rollback": Rollback.COPY}, "a cold arm decodes token by token; leave rollback out"),
    (
        {"answer": Kernel.CHUNK, "rollback": Rollback.COPY},
        "a window is verified by the recurrent kernel; leave rollback or answer out",
    ),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_an_arm_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Arm(**WARM | changes)
    [problem] = problems(refused.value, "mend the arm")
    assert said in str(problem)


# One arm for each field that changes what is run.
CHANGES: list[dict[str, Any]] = [
    {},
    {"compiler": Compiler.COLD},
    {"compiler": Compiler.SPLIT},
    {"compiler": Compiler.SPLIT_ROUNDED},
    {"history": Kernel.RECURRENT},
    {"tail": Kernel.RECURRENT},
    {"answer": Kernel.CHUNK},
    {"answers": Answers.PREFILLED},
    {"pool": PoolDtype.FP16},
    {"policy": CheckpointPolicy(every=64)},
    {"repeat": 1},
    *({"rollback": method} for method in Rollback),
    {"rollback": Rollback.REPLAY, "ring": 8},
    LAGGING,
    {"tensor_parallel": 2},
    {"activation": Activation.OUTSIDE},
    {"padding": Padding(side=Side.LEFT)},
    {"padding": Padding(side=Side.RIGHT)},
    {"padding": Padding(side=Side.RIGHT, columns=8)},
    {"padding": Padding(side=Side.RIGHT, rows=2)},
]


def test_arms_that_differ_have_names_that_differ() -> None:
    """Recordings, cells and floors find an arm by its name."""
    arms = [Arm(**WARM | changes) for changes in CHANGES]
    for one, other in combinations(arms, 2):
        assert one.name != other.name, (one, other)


def test_a_name_says_what_an_arm_is_and_leaves_defaults_out() -> None:
    assert Arm(**WARM).name == "warm/chunk-chunk/decoded/turn/bf16"
    full = Arm(
        **WARM | LAGGING | {"activation": Activation.OUTSIDE, "padding": Padding(side=Side.LEFT, rows=4), "repeat": 2}
    )
    assert full.name == (
        "warm/chunk-chunk/decoded/turn/bf16/spec-replay-ring8-lag/activated-outside/pad-left16x4/repeat2"
    )


def test_a_cell_is_named_by_its_effect_and_its_candidate() -> None:
    cell = Cell(effect=Effect.STATE, reference="split/a/b", candidate="warm/chunk-chunk/decoded/turn/bf16")
    assert cell.name == "state/chunk-chunk/decoded/turn/bf16"
