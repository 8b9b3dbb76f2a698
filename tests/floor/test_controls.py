"""Which arms of a suite are controls, and what a run couldn't measure."""

from __future__ import annotations

from replaycheck.assets import suite_file
from replaycheck.floor.controls import cold_arms, pairings, with_changes
from replaycheck.floor.measure import BUDGETS, for_floor
from replaycheck.floor.own import own_floors, state_cells
from replaycheck.replay.settings import Settings
from replaycheck.schema.arm import Compiler, Kernel, PoolDtype
from replaycheck.schema.floor import Control, FloorKind
from replaycheck.schema.suite import expand
from replaycheck.traces.suite import parse_suite

ARMS, CELLS = expand(parse_suite(suite_file("quick")))


def test_no_warm_arm_is_a_control_and_each_pair_differs_in_one_thing() -> None:
    found = pairings(ARMS)
    assert {each.control for each in found} == {Control.SPLIT, Control.ROUNDED, Control.KERNEL}
    for each in found:
        assert Compiler.WARM not in (each.reference.compiler, each.candidate.compiler)
        a, b = each.reference.model_dump(), each.candidate.model_dump()
        differ = {name for name in a if a[name] != b[name]}
        allowed = {
            Control.SPLIT: {"compiler"},
            Control.ROUNDED: {"compiler", "pool"},
            Control.KERNEL: {"history", "tail"},
        }
        assert differ == allowed[each.control]


def test_quick_has_a_rounded_control_for_each_reduced_pool_and_split_arm() -> None:
    found = pairings(ARMS)
    split = [each for each in found if each.control is Control.SPLIT]
    rounded = [each for each in found if each.control is Control.ROUNDED]
    assert len(split) == sum(arm.compiler is Compiler.SPLIT for arm in ARMS) == 9
    assert len(rounded) == 2 * len(split)
    cells = state_cells(rounded, CELLS)
    assert all(len(mine) == 1 and next(iter(mine)).startswith("state/") for mine in cells)


def test_equal_cold_computations_are_one_arm() -> None:
    cold = [arm for arm in ARMS if arm.compiler is Compiler.COLD]
    kept = cold_arms(ARMS)
    assert len(kept) < len(cold)
    same = [arm for arm in kept if arm.history is arm.tail is Kernel.CHUNK and arm.pool is PoolDtype.FP32]
    assert len(same) == 1
    # Unlike kernels switch at warm's last restore, which the policy decides.
    unlike = [arm for arm in kept if arm.history is not arm.tail and arm.pool is PoolDtype.FP32]
    assert len(unlike) == 4


def test_the_floor_of_a_suite_has_repeats_budgets_and_the_other_kernel(settings: Settings) -> None:
    arms = for_floor(settings).arms
    assert not any(arm.compiler is Compiler.WARM for arm in arms)
    controls = [each.control for each in pairings(arms)]
    assert {control: controls.count(control) for control in controls} == {
        Control.REPEAT: 1,
        Control.BATCH: 1,
        Control.SPLIT: 1,
        Control.BUDGET: len(BUDGETS),
        Control.KERNEL: 1,
        Control.ROUNDED: 1,
    }


def test_what_was_not_measured_is_said() -> None:
    assert len(own_floors((), ()).not_measured) == len(FloorKind)
    warm = tuple(arm for arm in ARMS if arm.compiler is Compiler.WARM)
    assert pairings(warm) == ()


def test_a_changed_arm_has_another_name() -> None:
    assert with_changes(ARMS[0], repeat=1).name == f"{ARMS[0].name}/repeat1"
