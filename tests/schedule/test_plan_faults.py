"""What each plan fault does to a schedule, and what the simulator sees of it."""

from __future__ import annotations

import re

import pytest

from replaycheck.errors import UsageError
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.faults.shipped import FAULTS
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Commit, Copy, CopyReason, Schedule, Source
from replaycheck.schema.arm import Compiler, Kernel
from replaycheck.state_probes.groups import chain
from tests.schedule.trees import KERNELS, POLICIES, arm, fork, rows

PLANS = [name for name, fault in FAULTS.items() if fault.schedule]
SAMPLE_FAULT = FAULTS["conv-late"]
"""Anybody's fault by ``package.module:name``, as seen from here."""


def warm(policy: str = "grid64+turn", kernels: tuple[Kernel, Kernel] = (Kernel.CHUNK, Kernel.CHUNK)) -> Schedule:
    return compile_schedule(fork(), arm(Compiler.WARM, policy, kernels))


def spoiled(name: str, schedule: Schedule) -> Schedule:
    return find_fault(name).on_schedule(schedule)


@pytest.mark.parametrize("name", ["restore-late", "conv-late"])
def test_position_faults_show_as_wrong_labels(name: str) -> None:
    run = simulate(spoiled(name, warm()))
    assert run.wrong_labels > 0
    assert simulate(warm()).wrong_labels == 0


@pytest.mark.parametrize("name", ["bf16-snapshot", "tail-kernel"])
def test_faults_of_bits_change_the_plan_without_a_trace_in_the_labels(name: str) -> None:
    assert spoiled(name, warm()) != warm()
    run = simulate(spoiled(name, warm()))
    assert (run.problems, run.wrong_labels) == ([], 0)


def test_bf16_snapshot_spares_extends_that_end_on_the_grid_final_states_and_recurrent_rows() -> None:
    def sources(schedule: Schedule) -> list[list[Source]]:
        return [[snap.source for snap in row.snapshots] for row in rows(schedule) if row.snapshots]

    def of(tokens: int, kernel: Kernel = Kernel.CHUNK) -> Schedule:
        # BOS, the user's role and END, the assistant's role: four tokens of the prompt aren't text.
        return compile_schedule(chain(tokens - 4, 5), arm(Compiler.WARM, "all", (kernel, kernel)))

    assert sources(spoiled("bf16-snapshot", of(130))) == [[Source.CHUNK_STATE, Source.CHUNK_STATE]]
    assert sources(spoiled("bf16-snapshot", of(128))) == sources(of(128)) == [[Source.ACCUMULATOR]]
    assert spoiled("bf16-snapshot", of(130, Kernel.RECURRENT)) == of(130, Kernel.RECURRENT)


def test_lost_checkpoint_costs_one_hit_and_is_otherwise_a_correct_plan() -> None:
    schedule = spoiled("lost-checkpoint", warm())
    run = simulate(schedule)
    assert len(run.restores) == schedule.expected_hits - 1
    assert run.problems == []
    assert next(row.a for row in rows(schedule) if row.request == 4 and row.scored) == 0


@pytest.mark.parametrize("kernels", KERNELS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
@pytest.mark.parametrize("policy", POLICIES)
def test_lost_checkpoint_leaves_a_correct_plan_under_every_policy(policy: str, kernels: tuple[Kernel, Kernel]) -> None:
    for group in (fork(), chain(150, 70, 150, 5)):
        schedule = compile_schedule(group, arm(Compiler.WARM, policy, kernels))
        assert simulate(spoiled("lost-checkpoint", schedule)).problems == []


def test_restore_late_takes_the_slot_of_the_next_checkpoint() -> None:
    commits = [step for step in warm().steps if isinstance(step, Commit)]
    slots = [step.slot for step in commits]
    pairs = [
        (before.source, after.source)
        for before, after in zip(warm().steps, spoiled("restore-late", warm()).steps, strict=True)
        if isinstance(before, Copy) and isinstance(after, Copy) and before.reason is CopyReason.RESTORE
    ]
    moved = [(before, after) for before, after in pairs if before != after]
    assert moved
    assert all(slots.index(after) == slots.index(before) + 1 for before, after in moved)


def test_tail_kernel_changes_the_scored_extends_after_a_restore_only() -> None:
    before, after = rows(warm()), rows(spoiled("tail-kernel", warm()))
    changed = [old for old, new in zip(before, after, strict=True) if old.kernel is not new.kernel]
    assert changed == [row for row in before if row.restored]
    assert len(changed) == 4


def test_faults_without_a_hit_to_spoil_leave_the_schedule_alone() -> None:
    one = compile_schedule(chain(30, 4), arm(Compiler.WARM))
    assert spoiled("lost-checkpoint", one) == one
    assert spoiled("restore-late", one) == one


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("compiler", [Compiler.COLD, Compiler.SPLIT, Compiler.SPLIT_ROUNDED], ids=str)
def test_no_fault_changes_the_schedule_of_a_reference(name: str, compiler: Compiler) -> None:
    for policy in POLICIES:
        schedule = compile_schedule(fork(), arm(compiler, policy))
        assert find_fault(name).on_schedule(schedule) is schedule


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in PLANS])
def test_a_fault_of_something_else_leaves_plans_alone(name: str) -> None:
    for policy in POLICIES:
        assert spoiled(name, warm(policy)) == warm(policy)


@pytest.mark.parametrize("compiler", [Compiler.SPLIT, Compiler.SPLIT_ROUNDED], ids=str)
def test_a_fault_that_would_enter_the_reference_is_refused(compiler: Compiler) -> None:
    with pytest.raises(UsageError, match="fault 'mine' may not enter split arms"):
        Fault("mine", "nothing", "RC101", enters=frozenset({Compiler.WARM, compiler}), schedule=lambda s: s)


def test_a_fault_spoils_exactly_one_thing() -> None:
    with pytest.raises(UsageError, match="fault 'mine' must spoil exactly one of schedule, recipe, provider, weights"):
        Fault("mine", "nothing", "RC101")
    with pytest.raises(UsageError, match="exactly one"):
        Fault("mine", "nothing", "RC101", schedule=lambda s: s, recipe=lambda r: r)


def test_a_name_finds_a_shipped_fault_and_a_path_finds_anybodys() -> None:
    assert find_fault("conv-late") is FAULTS["conv-late"]
    assert find_fault("tests.schedule.test_plan_faults:SAMPLE_FAULT") == SAMPLE_FAULT


def test_an_unknown_fault_is_refused_with_what_was_meant_and_where_the_choices_are() -> None:
    with pytest.raises(UsageError) as caught:
        find_fault("bf16-snapshott")
    assert "unknown fault 'bf16-snapshott'" in str(caught.value)
    assert "bf16-snapshot'?" in str(caught.value)
    assert "replaycheck selftest --list" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no.such.module:fault", "can't be imported: No module named 'no'"),
        ("replaycheck.faults.plans:nothing", "has no attribute 'nothing'"),
        ("replaycheck.faults.plans:bf16_snapshot", "is a function, not a replaycheck.faults.fault.Fault"),
        (":fault", "can't be imported"),
        (".plans:fault", "can't be imported"),
    ],
    ids=["module", "attribute", "not-a-fault", "empty-module", "relative-module"],
)
def test_a_fault_that_cannot_be_imported_is_a_usage_error(name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        find_fault(name)
