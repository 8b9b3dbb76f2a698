"""Tensor parallelism as an arm: its name, its cells, exactness at two ranks, and the comparison with one."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from replaycheck.replay.worker import Work, replay_groups
from replaycheck.schema.arm import Arm, Cell, Compiler, Effect, Kernel, PoolDtype, Rollback
from replaycheck.schema.suite import Suite, expand
from replaycheck.state_probes.groups import chain
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.parallel import ParallelNetwork
from replaycheck_kernels.recipe import SGLANG
from replaycheck_kernels.registry import ours
from tests.lab.runs import run_arms, same_logits, same_restores
from tests.schedule.speculation.groups import GROUPS as SPECULATION
from tests.schedule.speculation.groups import TURN, spec_arm
from tests.schedule.trees import arm, fork

MATRIX = {
    "history": ["chunk"],
    "tail": ["chunk"],
    "answers": ["decoded"],
    "pool": ["bf16"],
    "policy": {"every": 64, "turn_end": True},
}


def on_two(compiler: Compiler, pool: PoolDtype = PoolDtype.FP32, kernel: Kernel = Kernel.CHUNK) -> Arm:
    return arm(compiler, kernels=(kernel, kernel), pool=pool).model_copy(update={"tensor_parallel": 2})


def test_the_degree_is_in_the_name_when_there_is_more_than_one_rank() -> None:
    one = arm(Compiler.WARM)
    assert "tp" not in one.name
    assert on_two(Compiler.WARM).name == f"{one.name}/tp2"


def test_warm_equals_split_rounded_over_two_ranks_bit_for_bit(model: Path) -> None:
    network = ParallelNetwork(model, SGLANG, ours(SGLANG, "cpu"))
    arms = [
        on_two(compiler, pool, kernel)
        for pool, kernel, compiler in product(PoolDtype, Kernel, (Compiler.WARM, Compiler.SPLIT_ROUNDED))
    ]
    found = run_arms(network, fork(), arms)
    for warm, rounded in zip(found[::2], found[1::2], strict=True):
        assert warm.proven_hits == warm.expected_hits == len(warm.restores) > 1
        assert same_logits(warm, rounded)
        assert same_restores(warm, rounded)
    assert found[0].restores[0].temporal.shape == (3, 2, 64, 64)


@pytest.mark.parametrize("method", Rollback, ids=str)
def test_speculation_over_two_ranks_is_exact_too(model: Path, method: Rollback) -> None:
    """Windows of the trace, verified and rolled back on each rank by itself."""
    network = ParallelNetwork(model, SGLANG, ours(SGLANG, "cpu"))
    arms = [
        spec_arm(compiler, method, PoolDtype.BF16, TURN).model_copy(update={"tensor_parallel": 2})
        for compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED)
    ]
    warm, rounded = run_arms(network, SPECULATION["each count"], arms)
    assert warm.proven_hits == warm.expected_hits > 0
    assert same_logits(warm, rounded)
    assert same_restores(warm, rounded)


def suite(**matrix: object) -> Suite:
    return Suite.model_validate(
        {"schema": "replaycheck.suite/1", "name": "ranks", "traces": ["suite:quick"], "matrix": [MATRIX | matrix]}
    )


def test_a_matrix_crosses_degrees_and_compares_the_others_with_one_rank() -> None:
    arms, cells = expand(suite(tensor_parallel=[1, 2]))
    plain_arms, plain_cells = expand(suite())
    assert {each.name for each in plain_arms} < {each.name for each in arms}
    assert len(arms) == 2 * len(plain_arms)
    assert len(cells) == 2 * len(plain_cells) + 1
    (parallel,) = [cell for cell in cells if cell.effect is Effect.PARALLEL]
    assert parallel.candidate == f"{parallel.reference}/tp2"
    assert parallel.reference.startswith("warm/")
    for cell in cells:
        if cell is not parallel:
            assert cell.reference.endswith("/tp2") is cell.candidate.endswith("/tp2")


def test_without_one_rank_there_is_no_parallel_cell() -> None:
    _, cells = expand(suite(tensor_parallel=[2]))
    assert len(cells) == len(expand(suite())[1])
    assert Effect.PARALLEL not in {cell.effect for cell in cells}


def test_a_worker_runs_both_degrees_and_their_difference_is_rounding(model: Path) -> None:
    one, two, rounded = arm(Compiler.WARM), on_two(Compiler.WARM), on_two(Compiler.SPLIT_ROUNDED)
    cells = (
        Cell(effect=Effect.PARALLEL, reference=one.name, candidate=two.name),
        Cell(effect=Effect.EXACT, reference=rounded.name, candidate=two.name),
    )
    work = Work((one, two, rounded), cells, model, "exact", (), KernelChoice())
    tables = replay_groups(work, [chain(70, 6, 30, 3)])[0].tables
    pairs, restores = tables["pairs"].to_pandas(), tables["restores"].to_pandas()
    parallel, exact = (pairs[pairs["cell"] == cell.name] for cell in cells)
    assert len(parallel) == len(exact) == 7 + 4
    assert exact["bits_equal"].all()
    assert not parallel["bits_equal"].all()
    # fp32 roundings of logits of size 1 through four layers, as test_network has it for float64.
    assert float(np.abs(parallel["dlogp"]).max()) < 100 * 2.0**-24
    states = restores[restores["cell"] == cells[0].name]
    first, rest = states[states["layer"] == 0], states[states["layer"] != 0]
    assert len(first)
    assert (first["max_error"] == 0).all() and first["conv_equal"].all()
    assert (rest["max_error"] > 0).any()


def test_a_degree_that_does_not_divide_the_model_is_exit_2(tmp_path: Path, replaycheck: object, model: Path) -> None:
    file = tmp_path / "ranks.toml"
    file.write_text(
        'schema = "replaycheck.suite/1"\nname = "ranks"\ntraces = ["suite:quick"]\n[[matrix]]\n'
        'history = ["chunk"]\ntail = ["chunk"]\nanswers = ["decoded"]\npool = ["bf16"]\n'
        "policy = { every = 64, turn_end = true }\ntensor_parallel = [1, 3]\n"
    )
    outcome = replaycheck("run", file, "--model", model, "--out", tmp_path / "out", "--dry-run")  # type: ignore[operator]
    assert outcome.code == 2
    assert "tensor_parallel = 3 doesn't divide the model" in outcome.err
    assert "degrees that fit: 1, 2" in outcome.err
