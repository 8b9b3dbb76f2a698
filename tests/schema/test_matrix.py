"""What a suite's matrix is crossed into: which two arms each effect compares, and which combinations there are not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from replaycheck.schema.arm import Activation, Arm, Compiler, Effect, PoolDtype, Rollback
from replaycheck.schema.suite import COMPILERS, Suite, expand

MATRIX: dict[str, Any] = {
    "history": ["chunk"],
    "tail": ["chunk"],
    "answers": ["decoded"],
    "pool": ["bf16"],
    "policy": {"turn_end": True},
}


def suite(*matrices: dict[str, Any], **changes: Any) -> Suite:
    return Suite.model_validate(
        {"schema": "replaycheck.suite/1", "name": "s", "traces": ["t.jsonl"], "matrix": matrices} | changes
    )


def pairs(**changes: Any) -> dict[str, tuple[Arm, Arm]]:
    """By the cell's name its two arms, reference first."""
    arms, cells = expand(suite(MATRIX | changes))
    named = {arm.name: arm for arm in arms}
    assert len(named) == len(arms)
    return {cell.name: (named[cell.reference], named[cell.candidate]) for cell in cells}


@pytest.mark.parametrize("effect", [Effect.GRID, Effect.STATE, Effect.EXACT, Effect.TOTAL])
def test_each_effect_compares_its_compilers(effect: Effect) -> None:
    [(reference, candidate)] = pairs(effects=[effect]).values()
    assert (reference.compiler, candidate.compiler) == COMPILERS[effect]


def test_a_live_state_is_fp32_and_so_is_what_it_is_held_against() -> None:
    """Split carries fp32 whatever the pool; a grid effect in a reduced pool would mix the cast in."""
    pools = ["fp32", "bf16"]
    grid = pairs(effects=["grid"], pool=pools)
    assert {(a.pool, b.pool) for a, b in grid.values()} == {(PoolDtype.FP32, PoolDtype.FP32)}
    state = pairs(effects=["state"], pool=pools)
    assert {(a.pool, b.pool) for a, b in state.values()} == {
        (PoolDtype.FP32, pool) for pool in PoolDtype if pool in pools
    }
    exact = pairs(effects=["exact"], pool=pools)
    assert all(a.pool is b.pool for a, b in exact.values())
    assert len(grid) == 1
    assert len(state) == len(exact) == 2


def test_an_arm_of_several_cells_is_run_once() -> None:
    arms, cells = expand(suite(MATRIX | {"effects": ["state", "exact", "total"]}))
    assert [arm.compiler for arm in arms].count(Compiler.WARM) == 1
    assert len(cells) == 3


@pytest.mark.parametrize("method", list(Rollback))
def test_with_a_rollback_only_warm_decodes_in_windows_but_recovery_is_split_too(method: Rollback) -> None:
    [(split, warm)] = pairs(effects=["state"], rollback=[method]).values()
    assert warm.rollback is method
    assert split.rollback is (method if method is Rollback.RECOVER else None)
    [(cold, _)] = pairs(effects=["total"], rollback=[method]).values()
    assert cold.rollback is None
    [(rounded, _)] = pairs(effects=["exact"], rollback=[method]).values()
    assert rounded.rollback is method


def test_a_ring_is_of_replay_alone() -> None:
    found = pairs(effects=["exact"], rollback=["replay", "copy"], ring=8, ring_lag=True)
    rings = {warm.rollback: (warm.ring, warm.ring_lag) for _, warm in found.values()}
    assert rings == {Rollback.REPLAY: (8, True), Rollback.COPY: (None, False)}


def test_ranks_are_alike_except_against_one() -> None:
    found = pairs(effects=["exact", "parallel"], tensor_parallel=[1, 2])
    degrees = {name.split("/")[0]: set() for name in found}
    for name, (a, b) in found.items():
        degrees[name.split("/")[0]].add((a.tensor_parallel, b.tensor_parallel))
    assert degrees == {"exact": {(1, 1), (2, 2)}, "parallel": {(1, 2)}}


def test_without_one_rank_there_is_no_reference_for_several() -> None:
    assert not pairs(effects=["parallel"], tensor_parallel=[2, 4])


def test_activation_is_compared_where_it_lies_outside() -> None:
    assert not pairs(effects=["activation"])
    [(reference, candidate)] = pairs(effects=["activation"], activation="outside").values()
    assert (reference.activation, candidate.activation) == (Activation.INSIDE, Activation.OUTSIDE)
    [(split, warm)] = pairs(effects=["state"], activation="outside").values()
    assert split.activation is warm.activation is Activation.OUTSIDE


def test_only_warm_is_padded() -> None:
    found = pairs(effects=["exact"], padding=[{"side": "left"}, {"side": "right", "columns": 8}])
    assert {warm.padding.slug for _, warm in found.values() if warm.padding} == {"left16", "right8"}
    assert all(split.padding is None for split, _ in found.values())


REFUSED = [
    ({"answers": ["prefilled"]}, "answers 'prefilled' needs a policy without turn_end; give each its own matrix"),
    ({"policy": {"every": 64}}, "answers 'decoded' needs a policy with turn_end; give each its own matrix"),
    (
        {"policy": {"cache": "vllm-align"}},
        "answers 'decoded' needs a policy that stores states of answers; 'vllm-align+block256' isn't one",
    ),
    (
        {"answers": ["prefilled"], "policy": {"cache": "sglang-no-buffer"}},
        "answers 'prefilled' needs a policy that never stores states of answers; 'sglang-no-buffer' isn't one",
    ),
    ({"ring_lag": True, "rollback": ["replay"]}, "ring_lag needs a ring of so many tokens"),
    ({"effects": ["together"]}, "effect 'together' needs --subject-option batch=N of a server"),
    ({"tensor_parallel": [0]}, "greater than or equal to 1"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED, ids=[said[:45] for _, said in REFUSED])
def test_a_matrix_that_cannot_be_crossed_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        suite(MATRIX | changes)


@pytest.mark.parametrize("experiments", [["free"], ["forced", "forced"], []])
def test_the_forced_experiment_is_always_run_and_each_once(experiments: list[str]) -> None:
    with pytest.raises(ValidationError, match="most gates read the forced one"):
        suite(MATRIX, experiments=experiments)
