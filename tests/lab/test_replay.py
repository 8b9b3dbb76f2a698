"""The lab's promise: storing and restoring a state does one cast and nothing else, at every position of every arm."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from replaycheck.compare.record import ArmRecording
from replaycheck.faults.fault import find_fault
from replaycheck.replay.worker import Work, replay_groups
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm, Cell, Compiler, Effect, Kernel, PoolDtype
from replaycheck.state_probes.groups import chain
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.recipe import EXACT, ORACLE, Recipe
from replaycheck_kernels.registry import ours
from tests.lab.runs import run_arms, same_logits, same_restores
from tests.schedule.trees import KERNELS, arm, fork

#: Answers decoded into the state, prefilled again from grid checkpoints, and prefilled from prompts' ends.
POLICIES = ("grid64+turn", "grid64", "prompt")
CHUNK_CHUNK = (Kernel.CHUNK, Kernel.CHUNK)
FP32, BF16 = PoolDtype.FP32, PoolDtype.BF16

EACH_CASE = pytest.mark.parametrize(
    ("policy", "kernels"),
    list(product(POLICIES, KERNELS)),
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}-{value[1]}",
)
EACH_POOL = pytest.mark.parametrize("pool", PoolDtype, ids=str)

Recordings = dict[str, ArmRecording]


@pytest.fixture(scope="module")
def matrix(sglang: Network) -> Recordings:
    """Every arm of the cases below on a tree with forks and a repeat, in lockstep."""
    arms = [
        arm(compiler, policy, kernels, pool)
        for policy, kernels, pool, compiler in product(POLICIES, KERNELS, PoolDtype, Compiler)
        if pool is FP32 or compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED)
    ]
    return {recording.arm: recording for recording in run_arms(sglang, fork(), arms)}


@EACH_POOL
@EACH_CASE
def test_warm_equals_split_rounded_bit_for_bit(
    matrix: Recordings, policy: str, kernels: tuple[Kernel, Kernel], pool: PoolDtype
) -> None:
    warm = matrix[arm(Compiler.WARM, policy, kernels, pool).name]
    rounded = matrix[arm(Compiler.SPLIT_ROUNDED, policy, kernels, pool).name]
    assert warm.proven_hits == warm.expected_hits == len(warm.restores) > 1
    assert rounded.proven_hits == 0
    assert same_logits(warm, rounded)
    assert same_restores(warm, rounded)
    assert warm.kernels == rounded.kernels


@EACH_CASE
def test_an_fp32_pool_loses_nothing_and_a_reduced_pool_does(
    matrix: Recordings, policy: str, kernels: tuple[Kernel, Kernel]
) -> None:
    split = matrix[arm(Compiler.SPLIT, policy, kernels).name]
    assert same_logits(matrix[arm(Compiler.WARM, policy, kernels, FP32).name], split)
    for pool in (BF16, PoolDtype.FP16):
        assert not same_logits(matrix[arm(Compiler.WARM, policy, kernels, pool).name], split)


@pytest.mark.parametrize("recipe", [EXACT, ORACLE], ids=lambda recipe: recipe.name)
def test_warm_equals_split_rounded_under_every_recipe(model: Path, recipe: Recipe) -> None:
    """In float64 even an fp32 pool rounds."""
    network = Network(model, recipe, ours(recipe, "cpu"))
    arms = [arm(c, pool=pool) for pool in PoolDtype for c in (Compiler.WARM, Compiler.SPLIT_ROUNDED, Compiler.SPLIT)]
    found = run_arms(network, chain(70, 6, 30, 3), arms)
    for warm, rounded, split in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert same_logits(warm, rounded)
        assert same_logits(warm, split) is (warm.arm.endswith("fp32") and recipe is EXACT)


def test_restores_on_the_grid_have_no_grid_effect_and_others_do(matrix: Recordings) -> None:
    for policy, equal in (("grid64", True), ("prompt", False)):
        cold = matrix[arm(Compiler.COLD, policy, CHUNK_CHUNK).name]
        assert same_logits(cold, matrix[arm(Compiler.SPLIT, policy, CHUNK_CHUNK).name]) is equal
        assert cold.expected_hits == cold.proven_hits == len(cold.restores) == 0


def test_a_recording_says_where_each_turn_is_booked_and_what_it_continued(matrix: Recordings) -> None:
    schedule = compile_schedule(fork(), arm(Compiler.WARM))
    recording = matrix[schedule.arm.name]
    for plan, turn in zip(schedule.requests, recording.turns, strict=True):
        assert turn.key == (plan.trace, plan.branch, plan.turn)
        assert turn.positions.tolist() == list(range(plan.prompt, plan.end))
        assert tuple(turn.tokens) == plan.tokens[plan.prompt : plan.end]
        assert turn.logits.shape == (plan.end - plan.prompt, 144)
        assert np.isfinite(turn.logits).all()
        assert turn.restore == (plan.start or None)
    hits = [plan for plan in schedule.requests if plan.restore]
    assert [(r.position, r.label) for r in recording.restores] == [
        (plan.start, str(plan.restore.written)) for plan in hits if plan.restore
    ]
    assert recording.restores[0].temporal.shape == (3, 2, 64, 64)
    assert recording.restores[0].layers == (0, 1, 3)
    assert recording.kernels == {
        "tail": frozenset({"ours/chunk-emulator"}),
        "answer": frozenset({"ours/recurrent-cpu"}),
    }
    assert recording.computed_tokens == sum(plan.computed_end - plan.start for plan in schedule.requests)
    assert recording.label_mismatches == 0


def test_a_restored_state_holds_values_of_its_pool(matrix: Recordings) -> None:
    for pool, dtype_bits in ((BF16, 16), (PoolDtype.FP16, 13)):
        for state in matrix[arm(Compiler.WARM, pool=pool).name].restores:
            low = state.temporal.view(np.uint32) & np.uint32((1 << dtype_bits) - 1)
            normal = np.abs(state.temporal) >= 2.0**-14
            assert normal.any()
            assert not low[normal].any()
            assert state.dtype == str(pool)


@EACH_POOL
@pytest.mark.parametrize("policy", ["grid64+turn", "grid64"])
def test_bf16_snapshot_shows_in_every_pool_but_bf16(
    sglang: Network, matrix: Recordings, policy: str, pool: PoolDtype
) -> None:
    faulty = run_arms(sglang, fork(), [arm(Compiler.WARM, policy, pool=pool)], "bf16-snapshot")[0]
    reference = matrix[arm(Compiler.SPLIT_ROUNDED, policy, pool=pool).name]
    assert same_logits(faulty, reference) is (pool is BF16)
    assert same_restores(faulty, reference) is (pool is BF16)
    inside = [each for each in faulty.written if each.label == "interior"]
    assert inside
    assert all((each.bf16_share == 1).all() for each in inside)
    clean = [each for each in matrix[arm(Compiler.WARM, policy, pool=pool).name].written if each.label == "interior"]
    assert all((each.bf16_share < 0.5).all() for each in clean) is (pool is not BF16)


@pytest.mark.parametrize("fault", ["conv-late", "restore-late", "tail-kernel"])
def test_other_plan_faults_show_in_the_bits(sglang: Network, matrix: Recordings, fault: str) -> None:
    faulty = run_arms(sglang, fork(), [arm(Compiler.WARM)], fault)[0]
    assert not same_logits(faulty, matrix[arm(Compiler.SPLIT_ROUNDED).name])
    assert (faulty.label_mismatches > 0) is (fault != "tail-kernel")
    assert faulty.proven_hits == faulty.expected_hits


def test_lost_checkpoint_shows_in_the_hits(sglang: Network) -> None:
    faulty = run_arms(sglang, fork(), [arm(Compiler.WARM)], "lost-checkpoint")[0]
    assert (faulty.proven_hits, faulty.expected_hits) == (3, 4)


def test_arms_executed_together_have_the_bits_that_they_have_alone(sglang: Network, matrix: Recordings) -> None:
    for compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED, Compiler.COLD):
        for kernels in (CHUNK_CHUNK, (Kernel.RECURRENT, Kernel.CHUNK)):
            one = arm(compiler, "grid64+turn", kernels, FP32)
            alone = run_arms(sglang, fork(), [one])[0]
            assert same_logits(alone, matrix[one.name])
            assert same_restores(alone, matrix[one.name])


def computed(sglang: Network, arms: list[Arm], monkeypatch: pytest.MonkeyPatch) -> int:
    """Tokens that go through the network when the arms run together."""
    seen = 0
    plain = Network.forward

    def counting(self: Network, rows: object) -> object:
        nonlocal seen
        seen += sum(len(row.tokens) for row in rows)  # type: ignore[attr-defined]
        return plain(self, rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Network, "forward", counting)
        run_arms(sglang, chain(70, 6, 30, 3), arms)
    return seen


@pytest.mark.parametrize("reference", [Compiler.SPLIT, Compiler.SPLIT_ROUNDED, Compiler.COLD], ids=str)
def test_warm_never_takes_a_result_of_another_compiler(
    sglang: Network, monkeypatch: pytest.MonkeyPatch, reference: Compiler
) -> None:
    warm, other = arm(Compiler.WARM), arm(reference)
    apart = computed(sglang, [warm], monkeypatch) + computed(sglang, [other], monkeypatch)
    assert computed(sglang, [warm, other], monkeypatch) == apart


def test_equal_computations_of_one_compiler_are_done_once(sglang: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = arm(Compiler.WARM)
    again = warm.model_copy(update={"repeat": 1})
    alone = computed(sglang, [warm], monkeypatch)
    assert computed(sglang, [warm, again], monkeypatch) == alone
    # With a bf16 pool only the first prompt is the same computation.
    first = compile_schedule(chain(70, 6, 30, 3), warm).requests[0].prompt
    reduced = arm(Compiler.WARM, pool=BF16)
    assert computed(sglang, [warm, reduced], monkeypatch) == 2 * alone - first


def test_two_networks_in_one_run_are_kept_apart(sglang: Network, matrix: Recordings) -> None:
    other = Network.__new__(Network)
    other.__dict__.update(sglang.__dict__)
    schedule = compile_schedule(fork(), arm(Compiler.WARM))
    sglang.arena = sglang.new_arena()
    other.arena = other.new_arena()
    one, two = execute([ArmRun(schedule, sglang), ArmRun(schedule, other)])
    assert same_logits(one, two)
    assert same_logits(one, matrix[schedule.arm.name])


def test_a_worker_compares_warm_with_split_and_plants_recipe_faults_in_the_arms_they_enter(model: Path) -> None:
    split, warm = arm(Compiler.SPLIT), arm(Compiler.WARM)
    cell = Cell(effect=Effect.STATE, reference=split.name, candidate=warm.name)

    def unlike(faults: tuple[str, ...]) -> int:
        work = Work((split, warm), (cell,), model, "sglang", faults, KernelChoice())
        pairs = replay_groups(work, [chain(70, 6, 30, 3)])[0].tables["pairs"].to_pandas()
        assert len(pairs) == 7 + 4
        return int((~pairs["bits_equal"]).sum())

    assert unlike(()) == 0
    assert unlike(("beta-raw",)) == 11
    assert Compiler.SPLIT not in find_fault("beta-raw").enters
