"""Two steps in flight: what a step stores is seen two steps later, an end one token late; planted faults are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.operations import Begin, End, GroupPlan, Run, Store
from replaycheck.schedule.requests import plan_group
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Clear, Commit, Compute, Copy, CopyReason, Free, Schedule, Step
from replaycheck.schema.arm import CheckpointPolicy, Compiler
from replaycheck.schema.policy import Policy, SglangPolicy
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import TWINS, chain
from replaycheck.state_probes.pipeline import wrong_pipeline
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, PIPELINED, arm_of
from tests.schedule.prefix.groups import busy_groups

REFERENCE, SGLANG, VLLM = PIPELINED
#: A prompt of 44 tokens; the last input of the answer is token 191, so the discarded one lands on the track grid of 64.
ONE_SHORT = chain(40, 147, 9, 3)

Spoil = Callable[[list[Step]], list[Step]]


def spans(plan: GroupPlan) -> list[list[tuple[int, int, int]]]:
    """(request, a, b) of each step."""
    return [[(s.request, s.piece.a, s.piece.b) for s in op.spans] for op in plan.operations if isinstance(op, Run)]


def hits(plan: GroupPlan) -> list[int]:
    return [op.restore.position if op.restore else 0 for op in plan.operations if isinstance(op, Begin)]


def warm(group: Group, policy: Policy) -> Schedule:
    return compile_schedule(group, arm_of(Compiler.WARM, policy))


# -- by hand: three requests for one prompt of 100 tokens, with a budget of 100


@pytest.mark.parametrize("policy", [REFERENCE, SGLANG], ids=lambda policy: policy.slug)
def test_a_twin_in_the_next_step_computes_its_prompt_and_one_a_step_later_hits(policy: Policy) -> None:
    plan = plan_group(TWINS, policy)
    assert hits(plan)[:3] == [0, 0, 64]
    third = [(0, 101, 102), (1, 99, 100), (2, 64, 100)]
    assert spans(plan)[:3] == [[(0, 0, 100)], [(0, 100, 101), (1, 0, 99)], third]


def test_without_a_pipeline_the_twin_in_the_next_step_hits() -> None:
    assert hits(plan_group(TWINS, SGLANG.model_copy(update={"pipeline": 1})))[:3] == [0, 64, 64]


def test_twins_wait_while_their_block_is_in_flight() -> None:
    plan = plan_group(TWINS, VLLM)
    assert hits(plan)[:3] == [0, 96, 96]
    third = [(0, 100, 101), (1, 96, 100), (2, 96, 100)]
    assert spans(plan)[:3] == [[(0, 0, 96)], [(0, 96, 100)], third]


@pytest.mark.parametrize("policy", PIPELINED, ids=lambda policy: policy.slug)
def test_a_request_is_over_when_one_token_past_its_answer_was_run(policy: Policy) -> None:
    plan = plan_group(TWINS, policy)
    operations = list(plan.operations)
    for index, request in enumerate(plan.requests):
        end = next(i for i, op in enumerate(operations) if isinstance(op, End) and op.request == index)
        last = [op for op in operations[:end] if isinstance(op, Run)][-1]
        assert [s.piece.b for s in last.spans if s.request == index] == [request.end]
        assert all(s.request != index for op in operations[end:] if isinstance(op, Run) for s in op.spans)


def test_the_last_point_of_the_grid_is_stored_and_the_one_of_the_discarded_token_is_not() -> None:
    """Points 64 … 192: 128 lies in one half, 192 of the discarded token in the other."""
    plan = plan_group(ONE_SHORT, SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, pipeline=2))
    assert spans(plan)[147] == [(0, 190, 191)] and spans(plan)[148] == [(0, 191, 192)]
    assert next(op.stored.take.checkpoint.position for op in plan.operations if isinstance(op, Store)) == 128


# -- against the definitions, on random groups


@settings(max_examples=100, deadline=None)
@given(busy_groups(), st.sampled_from(PIPELINED))
def test_a_busy_group_hits_nothing_early_and_runs_one_token_past_each_end(busy: Group, policy: Policy) -> None:
    assert wrong_pipeline(plan_group(busy, policy)) is None


@settings(max_examples=60, deadline=None)
@given(busy_groups(), st.sampled_from(PIPELINED))
def test_a_discarded_token_is_of_warm_alone_and_scores_nothing(busy: Group, policy: Policy) -> None:
    """The reference stores the same states without it."""
    stores = []
    for compiler in (Compiler.WARM, Compiler.SPLIT):
        schedule = compile_schedule(busy, arm_of(compiler, policy))
        stores.append({step.checkpoint for step in schedule.steps if isinstance(step, Commit)})
        rows = [row for step in schedule.steps if isinstance(step, Compute) for row in step.rows]
        past = [row for row in rows if row.b > schedule.requests[row.request].computed_end]
        assert all(row.score_from == row.b for row in past)
        assert bool(past) is (compiler is Compiler.WARM)
    assert stores[0] == stores[1]


# -- refused


@pytest.mark.parametrize("late", [{"cache": NO_BUFFER}, {"turn_end": True}], ids=["no-buffer", "turn-end"])
def test_policies_that_store_the_exact_end_of_an_answer_have_no_pipeline(late: dict[str, object]) -> None:
    kind = SglangPolicy if "cache" in late else CheckpointPolicy
    with pytest.raises(ValidationError, match="seen a step late"):
        kind.model_validate({**late, "pipeline": 2})


# -- planted faults


def wrong_half(steps: list[Step]) -> list[Step]:
    """F42: what the discarded token left in the other half is stored at the end."""
    copies = [step for step in steps if isinstance(step, Copy) and step.reason is CopyReason.FORK]
    right, late = copies[1], copies[2]
    return [
        replace(s, slot=late.destination) if isinstance(s, Commit) and s.slot == right.destination else s for s in steps
    ]


def hit_in_the_same_step(steps: list[Step]) -> list[Step]:
    """F26: the twin copies its hit before the step that writes it."""
    at = next(i for i, s in enumerate(steps) if isinstance(s, Copy) and s.reason is CopyReason.RESTORE)
    first = next(i for i, s in enumerate(steps) if isinstance(s, Compute))
    return [*steps[:first], steps[at], *steps[first:at], *steps[at + 1 :]]


def reused_while_written(steps: list[Step]) -> list[Step]:
    """F40: the slots of a request whose end was seen go to the next one before the step in flight is done."""
    slot = next(s.rows[0].destination for s in steps if isinstance(s, Compute))
    free = next(i for i, s in enumerate(steps) if isinstance(s, Free) and s.slot == slot)
    past = max(i for i, s in enumerate(steps[:free]) if isinstance(s, Compute))
    return [*steps[:past], steps[free], Clear(slot), *steps[past:free], *steps[free + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "group", "policy", "said"),
    [
        (wrong_half, ONE_SHORT, SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, pipeline=2), "holds 192"),
        (hit_in_the_same_step, TWINS, REFERENCE, "which nothing wrote"),
        (hit_in_the_same_step, TWINS, VLLM, "means 96 tokens"),
        (reused_while_written, TWINS, SGLANG, "a row from 127 reads slot 1 with 0 tokens"),
    ],
    ids=["wrong-half", "same-step", "same-step-block", "reused"],
)
def test_a_planted_fault_is_named(spoil: Spoil, group: Group, policy: Policy, said: str) -> None:
    right = warm(group, policy)
    assert simulate(right).problems == []
    problems = simulate(replace(right, steps=tuple(spoil(list(right.steps))))).problems
    assert any(said in problem for problem in problems), problems


def test_a_live_slot_that_is_stored_at_the_end_has_a_token_too_many() -> None:
    """What the refusal is for: SGLang's cache without a buffer, told to overlap all the same."""
    policy = SglangPolicy(cache=NO_BUFFER)
    overlapped = policy.model_copy(update={"pipeline": 2})
    run = simulate(
        compile_schedule(chain(40, 9), arm_of(Compiler.WARM, policy).model_copy(update={"policy": overlapped}))
    )
    assert run.wrong_labels == 1
    assert any("r0@53 means 53 tokens; slot 1 holds 54" in problem for problem in run.problems), run.problems


def test_the_definitions_see_a_hit_that_comes_too_early() -> None:
    plan = plan_group(TWINS, SGLANG)
    begin = next(op for op in plan.operations if isinstance(op, Begin) and op.restore)
    runs = [i for i, op in enumerate(plan.operations) if isinstance(op, Run)]
    early = [op for op in plan.operations if op is not begin]
    early.insert(runs[0] + 1, begin)
    assert "hits r0@64" in str(wrong_pipeline(replace(plan, operations=tuple(early))))
