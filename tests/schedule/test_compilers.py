"""Compiled schedules: the simulator finds nothing wrong, and warm, split and cold differ in what they may differ in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.requests import plan_requests
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import (
    NULL_SLOT,
    Clear,
    Compute,
    Copy,
    CopyReason,
    Part,
    RowKind,
    Schedule,
)
from replaycheck.schema.arm import Compiler, Kernel
from replaycheck.schema.policy import SglangPolicy
from replaycheck.schema.trace import BatchMates, Group, Speculation
from replaycheck.state_probes.groups import chain, group, turn, with_events
from replaycheck.traces.tree import request_paths
from tests.schedule.trees import KERNELS, POLICIES, arm, fork, longest_stored, random_groups, rows

ALL_COMPILERS = pytest.mark.parametrize("compiler", Compiler, ids=str)
ALL_POLICIES = pytest.mark.parametrize("policy", POLICIES)
ALL_KERNELS = pytest.mark.parametrize("kernels", KERNELS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
CHUNK, RECURRENT = Kernel.CHUNK, Kernel.RECURRENT

random_cases: Callable[..., Any] = given(
    random_groups(), st.sampled_from(sorted(POLICIES)), st.sampled_from(KERNELS), st.sampled_from(Kernel)
)


def problems(schedule: Schedule) -> list[str]:
    """What the simulator objects to, and what it can't see: hits and slots.

    A hit is restored once for the scored track, and again for the track that stores with the history's kernel.
    """
    run = simulate(schedule)
    found = list(run.problems)
    warm, unlike = schedule.arm.compiler is Compiler.WARM, schedule.arm.history is not schedule.arm.tail
    hits = [plan for plan in schedule.requests if plan.restore and warm]
    restored = [plan.restore.name for plan in hits for _ in range(2 if unlike and plan.creates else 1) if plan.restore]
    if run.restores != restored or schedule.expected_hits != len(hits):
        found.append(f"restores {run.restores}, {restored} expected, {schedule.expected_hits} hits")
    if NULL_SLOT in run.slots or max(run.slots) >= schedule.slots:
        found.append(f"slots {sorted(run.slots)} of {schedule.slots}")
    return found


@ALL_POLICIES
@ALL_KERNELS
def test_every_schedule_of_the_quick_suite_simulates_without_a_problem(
    quick_groups: list[Group], kernels: tuple[Kernel, Kernel], policy: str
) -> None:
    for each in quick_groups:
        for compiler in Compiler:
            assert problems(compile_schedule(each, arm(compiler, policy, kernels))) == [], (each.group, compiler)


@settings(max_examples=60)
@random_cases
def test_random_trees_simulate_without_a_problem(
    group: Group, policy: str, kernels: tuple[Kernel, Kernel], answer: Kernel
) -> None:
    for compiler in Compiler:
        assert problems(compile_schedule(group, arm(compiler, policy, kernels, answer=answer))) == []


@settings(max_examples=60)
@random_cases
def test_a_restore_is_the_longest_stored_prefix_that_leaves_a_token_to_compute(
    group: Group, policy: str, kernels: tuple[Kernel, Kernel], answer: Kernel
) -> None:
    plans, paths = plan_requests(group, POLICIES[policy]), request_paths(group)
    assert [plan.start for plan in plans] == [longest_stored(i, plans, paths) for i in range(len(plans))]
    names = [checkpoint.name for plan in plans for checkpoint in plan.creates]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("prompt", "restored"), [(64, 0), (65, 64), (128, 64), (129, 128)])
def test_a_prompt_sent_again_leaves_at_least_its_last_token_to_compute(prompt: int, restored: int) -> None:
    # BOS, the user's role and END, the assistant's role: four tokens of the prompt aren't text.
    once = chain(prompt - 4, 5)
    again = plan_requests(once.model_copy(update={"requests": once.requests * 2}), POLICIES["grid64"])[1]
    assert (again.prompt, again.start) == (prompt, restored)


@settings(max_examples=60)
@random_cases
def test_warm_and_split_compute_the_same_rows(
    group: Group, policy: str, kernels: tuple[Kernel, Kernel], answer: Kernel
) -> None:
    def computed(compiler: Compiler) -> list[list[tuple[object, ...]]]:
        schedule = compile_schedule(group, arm(compiler, policy, kernels, answer=answer))
        return [
            [(r.request, r.a, r.b, r.kernel, r.part, r.kind, r.scored, r.restored) for r in step.rows]
            for step in schedule.steps
            if isinstance(step, Compute)
        ]

    assert computed(Compiler.WARM) == computed(Compiler.SPLIT) == computed(Compiler.SPLIT_ROUNDED)


@settings(max_examples=60)
@random_cases
def test_each_scored_position_is_computed_once_in_order_by_every_compiler(
    group: Group, policy: str, kernels: tuple[Kernel, Kernel], answer: Kernel
) -> None:
    for compiler in Compiler:
        schedule = compile_schedule(group, arm(compiler, policy, kernels, answer=answer))
        for index, plan in enumerate(schedule.requests):
            spans = [(r.a, r.b) for r in rows(schedule) if r.request == index and r.scored]
            assert [b for _, b in spans[:-1]] == [a for a, _ in spans[1:]], "scored rows follow one another"
            assert spans[-1][1] == plan.computed_end
            assert spans[0][0] <= plan.prompt - 1


@ALL_KERNELS
def test_cold_computes_each_prompt_from_zero_and_cuts_only_where_kernels_change(
    kernels: tuple[Kernel, Kernel],
) -> None:
    schedule = compile_schedule(fork(), arm(Compiler.COLD, "grid64+turn", kernels))
    assert not any(isinstance(step, Copy) for step in schedule.steps)
    assert not any(row.snapshots or row.restored for row in rows(schedule))
    assert schedule.expected_hits == 0
    for index, plan in enumerate(schedule.requests):
        prompt = [(r.a, r.b, r.kernel, r.part, r.scored) for r in rows(schedule) if r.request == index][:2]
        prompt = [row for row in prompt if row[3] is not Part.ANSWER]
        whole = [(0, plan.prompt, kernels[1], Part.TAIL, True)]
        cut = [(0, plan.start, kernels[0], Part.HISTORY, False), (plan.start, plan.prompt, kernels[1], Part.TAIL, True)]
        assert prompt == (cut if kernels[0] is not kernels[1] and plan.start else whole)
    assert any(plan.start for plan in schedule.requests), "nothing would have been cut"


def test_a_cold_schedule_has_the_null_slot_and_one_more() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.COLD))
    assert schedule.slots == 2
    assert {row.destination for row in rows(schedule)} == {row.source for row in rows(schedule)} == {1}


def test_unlike_kernels_run_two_tracks_and_the_history_track_stores() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.WARM, "grid64", (RECURRENT, CHUNK)))
    first = next(step for step in schedule.steps if isinstance(step, Compute)).rows
    assert [(row.part, row.kernel, row.scored, bool(row.snapshots)) for row in first] == [
        (Part.TAIL, CHUNK, True, False),
        (Part.HISTORY, RECURRENT, False, True),
    ]


def test_the_history_track_runs_up_to_the_last_state_that_is_stored() -> None:
    """A prompt of 104 tokens and an answer: the last stored state is the prompt's, so the answer is run once."""
    schedule = compile_schedule(chain(100, 6), arm(Compiler.WARM, "prompt", (CHUNK, RECURRENT)))
    unscored = [(row.a, row.b) for row in rows(schedule) if not row.scored]
    assert unscored == [(0, 104)]


def test_answers_are_decoded_one_token_a_row_or_run_as_one_extend() -> None:
    for answer, kind, lengths in ((RECURRENT, RowKind.DECODE, [1] * 6), (CHUNK, RowKind.PREFILL, [6])):
        schedule = compile_schedule(chain(10, 6), arm(Compiler.WARM, answer=answer))
        answers = [row for row in rows(schedule) if row.part is Part.ANSWER]
        assert [row.b - row.a for row in answers] == lengths
        assert {(row.kind, row.kernel) for row in answers} == {(kind, answer)}


def test_an_empty_answer_has_nothing_to_decode() -> None:
    schedule = compile_schedule(chain(10, 0), arm(Compiler.WARM))
    assert [row.part for row in rows(schedule)] == [Part.TAIL]


def test_a_split_schedule_carries_states_in_registers_that_nothing_copies_or_overwrites() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.SPLIT, "all"))
    assert not any(isinstance(step, Copy) for step in schedule.steps)
    written = [snap.destination for row in rows(schedule) for snap in row.snapshots]
    assert len(written) == len(set(written))
    assert schedule.expected_hits == 0
    assert sum(isinstance(step, Clear) for step in schedule.steps) == 1


def test_a_split_schedule_taps_what_is_stored_on_the_track_that_stores_it() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.SPLIT, "all", (CHUNK, RECURRENT)))
    tapped = [row for row in rows(schedule) if row.snapshots]
    assert {(row.scored, row.kernel) for row in tapped if row.part is Part.HISTORY} == {(False, CHUNK)}
    assert not any(row.scored for row in tapped)
    assert sum(len(row.snapshots) for row in tapped) == len(schedule.checkpoints())


def test_a_state_that_is_stored_already_is_written_to_a_buffer_by_warm_and_not_tapped_by_split() -> None:
    """Two requests for one prompt in one pass: SGLang takes a snapshot of each, and throws the second one away."""
    turns = [turn("u", None, "user", 96), *(turn(name, "u", "assistant", 2) for name in ("p", "q"))]
    twins = with_events(group(turns, ["p", "q"]), BatchMates(kind="batch", turn="p", mates=("q",)))
    policy = SglangPolicy(cache="sglang-extra-buffer")

    def snapshots(compiler: Compiler) -> list[tuple[int, int]]:
        schedule = compile_schedule(twins, arm(compiler).model_copy(update={"policy": policy}))
        return [(row.request, len(row.snapshots)) for row in rows(schedule) if row.snapshots]

    assert snapshots(Compiler.WARM) == [(0, 1), (1, 1)]
    assert snapshots(Compiler.SPLIT) == [(0, 1)]


@ALL_COMPILERS
def test_a_pool_has_the_null_slot_and_what_is_written(compiler: Compiler) -> None:
    schedule = compile_schedule(fork(), arm(compiler, "all"))
    assert sorted(simulate(schedule).slots) == list(range(1, schedule.slots))


def test_another_first_token_changes_that_of_every_path_and_nothing_else() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.WARM, "all"))
    other = schedule.begun_with(7)
    assert [plan.tokens for plan in other.requests] == [(7, *plan.tokens[1:]) for plan in schedule.requests]
    assert all(plan.tokens[0] != 7 for plan in schedule.requests)
    assert other.steps == schedule.steps and simulate(other).problems == []


def test_warm_reuses_the_slot_that_was_freed_last() -> None:
    schedule = compile_schedule(chain(70, 5, 70, 5, 70, 5), arm(Compiler.WARM, "turn"))
    begins = [
        step.slot if isinstance(step, Clear) else step.destination
        for step in schedule.steps
        if isinstance(step, Clear) or (isinstance(step, Copy) and step.reason is CopyReason.RESTORE)
    ]
    assert begins == [1, 1, 1]
    assert schedule.slots == 1 + 1 + 3, "null slot, working slot, one checkpoint a turn"


def test_hits_are_expected_for_each_request_that_restores() -> None:
    schedule = compile_schedule(fork(), arm(Compiler.WARM, "grid64+turn"))
    assert [plan.start for plan in schedule.requests] == [0, 64, 116, 116, 64]
    assert schedule.expected_hits == 4


def test_a_repeated_request_is_booked_on_a_branch_of_its_own() -> None:
    plans = plan_requests(fork(), POLICIES["grid64+turn"])
    assert [plan.branch for plan in plans] == [0, 1, 0, 2, 3]
    assert plans[4].tokens == plans[0].tokens


def test_a_state_that_is_stored_already_is_not_stored_again() -> None:
    plans = plan_requests(fork(), POLICIES["grid64+turn"])
    assert [[c.position for c in plan.creates] for plan in plans[:2]] == [[64, 116], [105]]
    assert plans[4].creates == ()


def test_a_window_that_contradicts_its_answer_is_refused_by_name() -> None:
    plain = fork()
    event = Speculation(kind="speculation", turn="a", offset=3, drafts=(1, 2), accepted=1)
    group = plain.model_copy(update={"traces": (plain.traces[0].model_copy(update={"events": (event,)}),)})
    with pytest.raises(UsageError, match=r"group 'g', trace 't', turn 'a': window at token 3 says that 1 drafts"):
        plan_requests(group, POLICIES["prompt"])
