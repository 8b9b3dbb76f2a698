"""Served groups: every plan simulates without a problem, and what the engine's loop does is what the events say."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.operations import Abort, Begin, Branch, Move, Run, Store, Swap, Tier
from replaycheck.schedule.requests import plan_group
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import NULL_SLOT, Commit, Compute, Copy, CopyReason, Evict, Schedule
from replaycheck.schema.arm import CheckpointPolicy, Compiler, Kernel
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import BatchMates, Fork, Group, Preemption
from replaycheck.state_probes.groups import GROUPS, chain, group, shared_answers, turn, with_events
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, POLICIES, arm_of
from replaycheck.traces.checks import check_group
from tests.schedule.prefix.groups import busy_groups
from tests.schedule.trees import KERNELS

NONE = VllmPolicy(cache="vllm-none")
TURN = CheckpointPolicy(turn_end=True)


def warm(plain: Group, policy: Policy) -> Schedule:
    return compile_schedule(plain, arm_of(Compiler.WARM, policy))


def spans(plain: Group, policy: Policy) -> list[list[tuple[int, int, int]]]:
    """(request, a, b) of each forward pass."""
    plan = plan_group(plain, policy)
    return [[(s.request, s.piece.a, s.piece.b) for s in op.spans] for op in plan.operations if isinstance(op, Run)]


@settings(max_examples=150, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)), st.sampled_from(KERNELS))
def test_every_plan_of_a_busy_group_simulates_without_a_problem(
    busy: Group, policy: str, kernels: tuple[Kernel, Kernel]
) -> None:
    assert list(check_group(busy)) == []
    for compiler in Compiler:
        schedule = compile_schedule(busy, arm_of(compiler, POLICIES[policy], kernels))
        run = simulate(schedule)
        assert run.problems == []
        assert NULL_SLOT not in run.slots
        assert max(run.slots) < schedule.slots


@settings(max_examples=100, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)))
def test_each_position_of_each_answer_is_scored_once_and_in_order(busy: Group, policy: str) -> None:
    for compiler in Compiler:
        schedule = compile_schedule(busy, arm_of(compiler, POLICIES[policy]))
        scored: dict[int, list[int]] = {index: [] for index in range(len(schedule.requests))}
        for row in [row for step in schedule.steps if isinstance(step, Compute) for row in step.rows if row.scored]:
            first = max(schedule.requests[row.request].prompt - 1, row.score_from or 0, row.a)
            for request in (row.request, *row.shared):
                scored[request] += range(first, row.b)
        for index, plan in enumerate(schedule.requests):
            assert scored[index] == list(range(plan.prompt - 1, plan.computed_end))


@settings(max_examples=100, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)))
def test_a_budget_and_a_capacity_are_never_exceeded(busy: Group, policy: str) -> None:
    chosen = POLICIES[policy]
    for passed in spans(busy, chosen):
        assert sum(b - a for _, a, b in passed) <= (chosen.budget or 10**9)
    stored: set[str] = set()
    for operation in plan_group(busy, chosen).operations:
        if isinstance(operation, Store):
            stored -= {operation.stored.evicts.name} if operation.stored.evicts else set()
            stored.add(operation.stored.take.checkpoint.name)
        stored -= {operation.state.name} if isinstance(operation, Abort) else set()
        assert len(stored) <= (chosen.capacity or 10**9)


@settings(max_examples=60, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)))
def test_warm_and_split_make_the_same_calls(busy: Group, policy: str) -> None:
    def calls(compiler: Compiler) -> list[list[tuple[object, ...]]]:
        schedule = compile_schedule(busy, arm_of(compiler, POLICIES[policy]))
        passes = [step.rows for step in schedule.steps if isinstance(step, Compute)]
        kept = [[r for r in p if r.b <= schedule.requests[r.request].computed_end] for p in passes]
        return [
            [(r.request, r.a, r.b, r.kernel, r.part, r.kind, r.score_from, r.restored) for r in p] for p in kept if p
        ]

    assert calls(Compiler.WARM) == calls(Compiler.SPLIT)


# -- forks


@pytest.mark.parametrize("policy", [NONE, *POLICIES.values()], ids=lambda policy: policy.slug)
def test_a_beam_search_copies_states_and_computes_nothing_twice(policy: Policy) -> None:
    schedule = warm(GROUPS["beam"], policy)
    forks = [op for op in plan_group(GROUPS["beam"], policy).operations if isinstance(op, Branch)]
    assert [(op.request, op.source) for op in forks] == [(1, 0), (3, 0), (2, 0), (4, 0), (5, 0)]
    prompt = schedule.requests[0].prompt
    assert [op.state.position - prompt for op in forks] == [0, 0, 7, 7, 14]
    tokens = sum(row.b - row.a for step in schedule.steps if isinstance(step, Compute) for row in step.rows)
    discarded = len(schedule.requests) if policy.pipeline > 1 else 0
    assert tokens == prompt + 20 + 7 + 2 + 9 + 17 + 4 + discarded
    copies = [s for s in schedule.steps if isinstance(s, Copy) and s.checkpoint in {op.state.name for op in forks}]
    assert len(copies) == len(forks)
    assert all(step.reason is CopyReason.FORK and step.source != step.destination for step in copies)


def test_the_order_of_siblings_changes_nothing_but_their_order() -> None:
    turns = [turn("u", None, "user", 20), *shared_answers("u", ["p", "q", "r"], [9, 8, 7], [9, 4, 4])]
    forks = [Fork(kind="fork", turn=name, source="p", offset=4) for name in ("q", "r")]

    def computed(order: list[str]) -> Counter[tuple[str, int, int]]:
        plain = with_events(group(turns, order), *forks)
        return Counter((order[request], a, b) for passed in spans(plain, TURN) for request, a, b in passed)

    assert computed(["p", "q", "r"]) == computed(["p", "r", "q"]) == computed(["r", "q", "p"])


def test_a_later_prompt_hits_the_tokens_that_a_fork_shares_with_its_source() -> None:
    """The second answer's state after its end is stored under tokens of which the first 4 are the source's."""
    turns = [
        turn("u", None, "user", 20),
        *shared_answers("u", ["p", "q"], [9, 8], [9, 4]),
        turn("v", "q", "user", 3),
        turn("c", "v", "assistant", 2),
    ]
    plain = with_events(group(turns, ["p", "q", "c"]), Fork(kind="fork", turn="q", source="p", offset=4))
    assert plan_group(plain, TURN).requests[2].start == plan_group(plain, TURN).requests[1].computed_end


def test_a_fork_of_a_fork_from_tokens_that_both_share_is_one_of_the_first() -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q", "r"], [9, 9, 9], [9, 6, 3])]
    events = [
        Fork(kind="fork", turn="q", source="p", offset=6),
        Fork(kind="fork", turn="r", source="q", offset=3),
    ]
    plan = plan_group(with_events(group(turns, ["p", "q", "r"]), *events), NONE)
    assert [(op.request, op.source) for op in plan.operations if isinstance(op, Branch)] == [(2, 0), (1, 0)]


def test_forks_in_a_circle_or_from_an_answer_that_nobody_asks_for_are_refused() -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [5, 5], [5, 5])]
    circle = [Fork(kind="fork", turn=a, source=b, offset=2) for a, b in (("p", "q"), ("q", "p"))]
    with pytest.raises(UsageError, match="lead back to it"):
        plan_group(with_events(group(turns, ["p", "q"]), *circle), NONE)
    with pytest.raises(UsageError, match="'q' forks from 'p', which no request asks for"):
        plan_group(with_events(group(turns, ["q"]), circle[1]), NONE)


def test_a_fork_from_where_an_answer_never_gets_is_refused() -> None:
    """The last token of an answer is never an input, so no state holds it."""
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [5, 9], [5, 5])]
    length = len(turns[1].tokens) - 1  # without the role token, which is the prompt's

    def served(offset: int) -> None:
        plan_group(with_events(group(turns, ["p", "q"]), Fork(kind="fork", turn="q", source="p", offset=offset)), NONE)

    served(length - 1)
    with pytest.raises(UsageError, match="group 'g': the answer that 'q' forks from never gets that far"):
        served(length)


@pytest.mark.parametrize(
    ("source", "offset", "complaint"),
    [("p", 5, "don't share so many tokens"), ("q", 0, "no other answer"), ("u", 0, "no other answer")],
)
def test_an_impossible_fork_is_a_problem_of_the_trace(source: str, offset: int, complaint: str) -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [5, 7], [5, 4])]
    event = Fork(kind="fork", turn="q", source=source, offset=offset)
    assert [complaint in problem.text for problem in check_group(with_events(group(turns, ["p", "q"]), event))] == [
        True
    ]


# -- preemption


@pytest.mark.parametrize("after", [0, 1, 63, 64, 65, 73, 74, 75, 80])
def test_a_preempted_request_is_computed_again_with_what_it_had_sampled(after: int) -> None:
    """The prompt has 74 tokens; one token more than were computed is known once the answer has begun."""
    event = Preemption(kind="preemption", turn="a0", after=after, resume="recompute")
    plain = with_events(chain(70, 9), event)
    passes = [span for passed in spans(plain, NONE) for span in passed]
    again = max(after + 1, 74) if after >= 74 else 74
    first = [(0, 0, min(after, 74))] if after else []
    decoded = [(0, i, i + 1) for i in range(74, after)]
    rest = [(0, i, i + 1) for i in range(again, 83)]
    assert passes == [*first, *decoded, (0, 0, again), *rest]


@pytest.mark.parametrize("resume", ["recompute", "swap"])
def test_others_run_before_a_preempted_request_resumes_unless_they_continue_it(resume: str) -> None:
    event = Preemption.model_validate({"kind": "preemption", "turn": "p", "after": 12, "resume": resume})
    apart = [turn("u", None, "user", 20), turn("p", "u", "assistant", 3)]
    other = [turn("w", None, "user", 8), turn("q", "w", "assistant", 2)]
    follow = [turn("v", "p", "user", 8), turn("q", "v", "assistant", 2)]

    def order(turns: list[object]) -> list[int]:
        plain = with_events(group(turns, ["p", "q"]), event)  # type: ignore[arg-type]
        return list(dict.fromkeys(request for passed in spans(plain, NONE)[1:] for request, _, _ in passed))

    assert order([*apart, *other]) == [1, 0]
    assert order([*apart, *follow]) == [0, 1]


def test_a_swap_computes_nothing_twice_and_comes_back_to_a_slot_that_was_in_use_between() -> None:
    event = Preemption(kind="preemption", turn="p", after=26, resume="swap")
    turns = [turn("u", None, "user", 20), turn("p", "u", "assistant", 9)]
    turns += [turn("w", None, "user", 30), turn("q", "w", "assistant", 2)]
    plain = with_events(group(turns, ["p", "q"]), event)
    swaps = [op for op in plan_group(plain, NONE).operations if isinstance(op, Swap)]
    assert [(op.out, op.state.position) for op in swaps] == [(True, 26), (False, 26)]
    schedule = warm(plain, NONE)
    out, back = [step for step in schedule.steps if isinstance(step, Copy)]
    assert (out.reason, back.reason) == (CopyReason.TIER, CopyReason.TIER)
    assert (out.destination, out.source) == (back.source, back.destination)
    used = [row.destination for step in schedule.steps if isinstance(step, Compute) for row in step.rows]
    assert set(used) == {out.source}
    computed = sorted((a, b) for passed in spans(plain, NONE) for request, a, b in passed if request == 0)
    assert [a for a, _ in computed[1:]] == [b for _, b in computed[:-1]]


# -- batching


def test_a_prompt_is_cut_at_any_token_by_an_odd_budget() -> None:
    passes = spans(chain(96, 3), CheckpointPolicy(every=64, budget=37))
    assert passes[:3] == [[(0, 0, 37)], [(0, 37, 74)], [(0, 74, 100)]]
    assert passes[3:] == [[(0, 100, 101)], [(0, 101, 102)], [(0, 102, 103)]]


def test_decode_steps_come_before_pieces_of_prompts_in_one_pass() -> None:
    turns = [turn("u", None, "user", 10), turn("p", "u", "assistant", 30)]
    turns += [turn("w", None, "user", 50), turn("q", "w", "assistant", 2)]
    mates = BatchMates(kind="batch", turn="p", mates=("q",))
    passes = spans(with_events(group(turns, ["p", "q"]), mates), CheckpointPolicy(every=64, budget=20))
    first = [[(0, 0, 14), (1, 0, 6)], [(0, 14, 15), (1, 6, 25)], [(0, 15, 16), (1, 25, 44)]]
    assert passes[:4] == [*first, [(0, 16, 17), (1, 44, 54)]]
    assert passes[4] == [(0, 17, 18), (1, 54, 55)]


@pytest.mark.parametrize(("text", "tokens"), [(123, 63), (124, 64), (125, 1), (126, 2)])
def test_a_resent_prompt_computes_at_least_one_token(text: int, tokens: int) -> None:
    once = chain(text, 2)
    again = once.model_copy(update={"requests": once.requests * 2})
    plan = plan_group(again, CheckpointPolicy(every=64)).requests[1]
    assert plan.prompt - plan.start == tokens


def test_readers_of_one_snapshot_copy_it_and_none_of_them_writes_it() -> None:
    schedule = warm(GROUPS["batch"], SglangPolicy(cache=EXTRA_BUFFER))
    restores = [step for step in schedule.steps if isinstance(step, Copy) and step.reason is CopyReason.RESTORE]
    assert len(restores) == 4
    assert len({step.source for step in restores}) == 1
    assert len({step.destination for step in restores}) == 4
    assert simulate(schedule).problems == []


# -- tiers


@pytest.mark.parametrize("policy", [TURN, SglangPolicy(cache=NO_BUFFER), VllmPolicy(cache="vllm-align", block=16)])
def test_states_go_to_the_host_and_come_back_and_an_aborted_load_costs_the_hit(policy: Policy) -> None:
    plan = plan_group(GROUPS["tiers"], policy)
    moves = [(op.state.name, op.out) for op in plan.operations if isinstance(op, Tier)]
    aborted = [op.state.name for op in plan.operations if isinstance(op, Abort)]
    loaded = [name for name, out in moves if not out]
    assert loaded and aborted
    for name in [*loaded, *aborted]:
        assert (name, True) in moves
    restored = [op.restore.name if op.restore else None for op in plan.operations if isinstance(op, Begin)]
    assert restored[2] == loaded[0]
    assert restored[4] not in aborted
    schedule = warm(GROUPS["tiers"], policy)
    assert sum(isinstance(s, Copy) and s.reason is CopyReason.TIER for s in schedule.steps) == len(moves)
    assert simulate(schedule).problems == []


# -- pool


def test_slots_are_freed_reused_and_evicted_in_a_small_cache() -> None:
    schedule = warm(GROUPS["conversation"], CheckpointPolicy(every=64, turn_end=True, capacity=2))
    evicted = [step.slot for step in schedule.steps if isinstance(step, Evict)]
    run = simulate(schedule)
    assert evicted and run.problems == []
    assert len(run.owners) == 2
    assert schedule.slots < 1 + 1 + len(schedule.checkpoints())


@pytest.mark.parametrize("slug", sorted(POLICIES))
@pytest.mark.parametrize("name", sorted(GROUPS))
def test_in_the_end_each_slot_is_free_or_holds_a_stored_state(name: str, slug: str) -> None:
    run = simulate(warm(GROUPS[name], POLICIES[slug]))
    assert set(run.slots) - run.freed == set(run.owners)


def test_the_audit_table_has_the_position_of_every_stored_and_restored_state() -> None:
    schedule = warm(GROUPS["conversation"], SglangPolicy(cache=EXTRA_BUFFER, track_interval=64))
    table = simulate(schedule).labels
    assert {label.name for label in table} == set(schedule.checkpoints())
    assert all(len(label.held.tokens) == label.held.conv_end == label.position for label in table)


def test_a_block_that_is_full_stays_and_the_state_goes_on_in_the_next() -> None:
    plain, policy = chain(60, 70), VllmPolicy(cache="vllm-align", block=32, retain="all")
    plan = plan_group(plain, policy)
    assert [op.state.position for op in plan.operations if isinstance(op, Move)] == [32, 64, 96, 128]
    assert [c.position for c in plan.requests[0].creates] == [32, 64, 96, 128]
    schedule = warm(plain, policy)
    slots = {step.checkpoint: step.slot for step in schedule.steps if isinstance(step, Commit)}
    moves = [step for step in schedule.steps if isinstance(step, Copy)]
    assert [step.source for step in moves] == list(slots.values())
    assert simulate(schedule).owners == {slot: name for name, slot in slots.items()}
