"""The suite policies: every event and policy is in it, its plans are right, and a fault in each policy's plan is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.assets import suite_file, trace_suite
from replaycheck.faults import ownership
from replaycheck.faults.fault import find_fault
from replaycheck.faults.steps import Steps
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Arm, Compiler
from replaycheck.schema.suite import expand
from replaycheck.schema.trace import Group
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import parse_suite
from replaycheck.traces.suites.policies import policies_specs

ARMS = {arm.name: arm for arm in expand(parse_suite(suite_file("policies")))[0]}
WARM = [name for name, arm in ARMS.items() if arm.compiler is Compiler.WARM]
Spoil = Callable[[Schedule], Schedule]


@pytest.fixture(scope="module")
def groups() -> dict[str, Group]:
    return {group.group.removeprefix("policies."): group for group in read_groups(trace_suite("policies"))}


def steps(fault: Callable[[Steps], Steps]) -> Spoil:
    return lambda schedule: replace(schedule, steps=tuple(fault(list(schedule.steps))))


def shipped(name: str) -> Spoil:
    return find_fault(name).on_schedule


#: By policy: a fault of its own kind, the group in which it is planted, and what is said of it.
PLANTED: dict[str, tuple[str, Spoil, str]] = {
    "grid64+turn+cap6": ("eviction_pressure", steps(ownership.evicted_slot_is_still_hit), "slot"),
    "sglang-no-buffer+cap8": ("shared_fewshot", steps(ownership.snapshot_of_the_running_slot), "means"),
    "sglang-extra-buffer+track64+budget90": ("shared_fewshot", shipped("conv-late"), "conv window"),
    "sglang-extra-buffer+page16+track64+cap3": (
        "preemption",
        steps(ownership.no_clear_on_reuse),
        "reads slot",
    ),
    "vllm-align+block32+tail16+retain-all": ("preemption", steps(ownership.stored_slot_is_reused), "is stored in"),
    "vllm-align+block32+cap6+budget41": ("tiers", steps(ownership.label_is_a_block_end_that_no_call_ended_at), "means"),
    "sglang-extra-buffer+track64+budget90+pipeline2": ("shared_fewshot", shipped("conv-late"), "conv window"),
    "vllm-align+block32+tail16+retain-all+pipeline2": (
        "preemption",
        steps(ownership.stored_slot_is_reused),
        "is stored in",
    ),
    "pad-left64": ("shared_fewshot", shipped("mask-dropped"), "means"),
    "pad-right16x4": ("parallel_sampling_beam.beam", shipped("mask-dropped"), "means"),
    "spec-slots": ("windows", shipped("commit-late"), "of a window"),
    "spec-recover": ("windows", shipped("commit-late"), "of a window"),
}
OF_EVENTS: dict[str, tuple[Spoil, str]] = {
    "parallel_sampling_beam.beam": (steps(ownership.fork_from_a_sibling), "means"),
    "preemption": (steps(ownership.swapped_back_from_another_slot), "means"),
    "tiers": (steps(ownership.aborted_load_is_used), "reads slot"),
    "one_token_and_full_hit": (shipped("restore-late"), "means"),
}


def kind(arm: Arm) -> str:
    """What sets an arm apart: padding, rollback, or its policy."""
    last = arm.name.rpartition("/")[2]
    return last if last in PLANTED else arm.policy.slug


def test_every_event_is_in_the_suite(groups: dict[str, Group]) -> None:
    kinds = {event.kind for group in groups.values() for trace in group.traces for event in trace.events}
    assert {"fork", "preemption", "batch", "offload", "aborted-load", "speculation"} <= kinds
    resumed = {
        event.resume
        for group in groups.values()
        for trace in group.traces
        for event in trace.events
        if event.kind == "preemption"
    }
    assert resumed == {"recompute", "swap"}


def test_the_specs_are_those_of_the_file(groups: dict[str, Group]) -> None:
    assert [spec.group.removeprefix("policies.") for spec in policies_specs()] == list(groups)


def test_every_policy_that_stores_is_in_the_suite() -> None:
    caches = {arm.policy.cache for arm in ARMS.values()}
    assert caches == {"reference", "sglang-no-buffer", "sglang-extra-buffer", "vllm-align"}
    assert {kind(ARMS[name]) for name in WARM} == set(PLANTED)


@pytest.mark.parametrize("name", ARMS)
def test_each_plan_is_right_and_warm_ones_hit(name: str, groups: dict[str, Group]) -> None:
    hits = 0
    for group in groups.values():
        schedule = compile_schedule(group, ARMS[name])
        run = simulate(schedule)
        assert (run.problems, run.wrong_labels) == ([], 0)
        hits += schedule.expected_hits
    assert (hits > 10) is (ARMS[name].compiler is Compiler.WARM)


@pytest.mark.parametrize("name", WARM)
def test_a_fault_in_each_policys_plan_is_seen(name: str, groups: dict[str, Group]) -> None:
    where, spoil, said = PLANTED[kind(ARMS[name])]
    right = compile_schedule(groups[where], ARMS[name])
    problems = simulate(spoil(right)).problems
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("where", OF_EVENTS)
@pytest.mark.parametrize("name", [name for name in WARM if "turn" in name])
def test_a_fault_in_each_events_plan_is_seen(name: str, where: str, groups: dict[str, Group]) -> None:
    spoil, said = OF_EVENTS[where]
    problems = simulate(spoil(compile_schedule(groups[where], ARMS[name]))).problems
    assert any(said in problem for problem in problems), problems
