"""Windows in whole schedules: every policy and method leaves what the path says, and what doesn't fit is refused or cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from replaycheck.errors import UsageError
from replaycheck.faults import plans
from replaycheck.faults.plans import commit_late
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.operations import Run, Span
from replaycheck.schedule.prefix.job import Piece
from replaycheck.schedule.requests import check_playable
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.speculation.rows import passes
from replaycheck.schedule.speculation.windows import Window
from replaycheck.schedule.steps import Compute, Copy, CopyReason, Kept, Part, Row, RowKind, Schedule, Source
from replaycheck.schema.arm import Compiler, PoolDtype, Rollback
from replaycheck.schema.policy import CheckpointPolicy, Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import BatchMates, Fork, Group, Preemption
from replaycheck.state_probes.groups import Counts, chain, group, shared_answers, turn, windowed
from replaycheck.traces.tree import TraceTree
from tests.schedule.prefix.groups import busy_groups
from tests.schedule.speculation.groups import GROUPS, TURN, boundary, spec_arm
from tests.schedule.trees import rows

POLICIES: tuple[Policy, ...] = (
    CheckpointPolicy(every=64, turn_end=True, capacity=6),
    CheckpointPolicy(prompt_end=True, budget=70),
    SglangPolicy(cache="sglang-no-buffer", capacity=4),
    SglangPolicy(cache="sglang-extra-buffer", track_interval=64, budget=90),
    VllmPolicy(cache="vllm-none", budget=50),
    VllmPolicy(cache="vllm-align", block=16, tail=8, retain="all"),
)
REDUCED = (Compiler.WARM, Compiler.SPLIT_ROUNDED)


def methods(policy: Policy) -> list[Rollback]:
    """Those that the policy has: aligned blocks belong to vLLM's two."""
    align = isinstance(policy, VllmPolicy) and policy.align
    return [Rollback.SLOTS, Rollback.RECOVER] if align else list(Rollback)


def schedules(plain: Group, policy: Policy) -> list[Schedule]:
    arms = [spec_arm(compiler, None, policy=policy) for compiler in Compiler]
    arms += [spec_arm(compiler, method, policy=policy) for method in methods(policy) for compiler in REDUCED]
    return [compile_schedule(plain, arm) for arm in arms]


def scored(schedule: Schedule, request: int) -> list[int]:
    """Positions of a request whose logits are recorded, in order."""
    found: list[int] = []
    for row in rows(schedule):
        if row.scored and request in (row.request, *row.shared):
            first = max(row.a, schedule.requests[row.request].prompt - 1, row.score_from or 0)
            found += range(first, row.b if row.accepted is None else row.a + 1 + row.accepted)
    return found


def assert_played(schedule: Schedule) -> None:
    run = simulate(schedule)
    assert run.problems == []
    assert run.wrong_labels == 0
    assert len(run.restores) == schedule.expected_hits
    for index, request in enumerate(schedule.requests):
        assert scored(schedule, index) == list(range(request.prompt - 1, request.end - 1))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.slug)
def test_every_method_leaves_what_the_path_says_at_every_boundary(policy: Policy) -> None:
    groups = [*GROUPS.values(), *(boundary(accepted, gap) for accepted in range(4) for gap in range(6))]
    for plain in groups:
        for schedule in schedules(plain, policy):
            assert_played(schedule)


@settings(max_examples=25, deadline=None)
@given(busy_groups(), st.sampled_from(POLICIES), st.data())
def test_windows_between_forks_preemptions_and_mates(plain: Group, policy: Policy, data: st.DataObject) -> None:
    count = st.integers(0, 5).flatmap(lambda drafts: st.tuples(st.just(drafts), st.integers(0, drafts)))
    answers = [t.id for t in plain.traces[0].turns if t.role == "assistant"]
    counts = {name: data.draw(st.lists(count, max_size=8)) for name in answers}
    busy = windowed(plain, counts, *plain.traces[0].events)
    found = schedules(busy, policy)
    for schedule in found:
        assert_played(schedule)
    # All arms of a group store at the same places, so that a cell compares like with like.
    assert len({tuple(r.creates for r in schedule.requests) for schedule in found}) == 1


def verify_rows(plain: Group, method: Rollback, compiler: Compiler = Compiler.WARM) -> list[Row]:
    return [row for row in rows(compile_schedule(plain, spec_arm(compiler, method))) if row.kind is RowKind.VERIFY]


ONE = windowed(chain(5, 7), {"a0": [(3, 1), (2, 2)]})
"""A prompt of 9 tokens and 7 inputs of its answer: windows of 4 and 3 tokens that keep 2 and 3, then two steps."""


def test_a_row_runs_a_window_and_keeps_what_is_accepted() -> None:
    found = verify_rows(ONE, Rollback.RECOVER)
    assert [(row.a, row.b, row.accepted, row.kept) for row in found] == [
        (9, 13, 1, Kept.all(2)),
        (11, 14, 2, Kept.all(3)),
        (14, 15, 0, Kept.all(1)),
        (15, 16, 0, Kept.all(1)),
    ]
    plan = compile_schedule(ONE, spec_arm(Compiler.WARM, Rollback.RECOVER)).requests[0]
    assert plan.run_of(found[0])[:2] == plan.tokens[9:11] and plan.run_of(found[0])[2] != plan.tokens[11]
    assert len({row.destination for row in found} | {row.source for row in found}) == 1


def test_slots_read_the_column_that_was_accepted() -> None:
    first, second, third, _ = verify_rows(ONE, Rollback.SLOTS)
    columns = [snap.destination for snap in first.snapshots[:1]] + [first.destination]
    assert columns[0] == first.source  # the working slot is the first column
    assert [(s.source, s.chunk, s.conv_end) for s in first.snapshots] == [(Source.POSITION, n, n) for n in (1, 3, 4)]
    assert second.source == first.destination and third.source == second.destination
    assert second.snapshots[0].destination == columns[0]


def test_copy_brings_the_kept_state_back_from_scratch() -> None:
    schedule = compile_schedule(ONE, spec_arm(Compiler.WARM, Rollback.COPY))
    copies = [step for step in schedule.steps if isinstance(step, Copy) and step.reason is CopyReason.ROLLBACK]
    found = verify_rows(ONE, Rollback.COPY)
    assert [(copy.source, copy.destination) for copy in copies] == [(row.destination, row.source) for row in found]
    assert len({row.source for row in found}) == 1 and found[0].source != found[0].destination
    assert [copy.checkpoint for copy in copies] == ["r0@11.kept", "r0@14.kept", "r0@15.kept", "r0@16.kept"]


def test_the_reference_runs_nothing_that_is_thrown_away() -> None:
    assert verify_rows(ONE, Rollback.SLOTS, Compiler.SPLIT_ROUNDED) == []
    kept = rows(compile_schedule(ONE, spec_arm(Compiler.SPLIT_ROUNDED, Rollback.SLOTS)))[1:]
    recovered = verify_rows(ONE, Rollback.RECOVER, Compiler.SPLIT_ROUNDED)
    wanted = [(9, 11), (11, 14), (14, 15), (15, 16)]
    assert [(row.a, row.b) for row in kept] == [(row.a, row.b) for row in recovered] == wanted


def test_a_prompt_beside_a_window_runs_once_in_the_pass_of_the_windows_first_token() -> None:
    window = Span(0, Piece(10, 13, Part.ANSWER, Window(0, (7, 8, 9), 2)), ())
    prompt = Span(1, Piece(0, 50, Part.TAIL), ())
    token = passes(Run((window, prompt)), spec_arm(Compiler.WARM, None))
    seen = [[(span.request, span.piece.a, span.piece.b) for span in run.spans] for run in token]
    assert seen == [[(0, 10, 11), (1, 0, 50)], [(0, 11, 12)], [(0, 12, 13)]]


def test_an_arm_without_a_method_decodes_token_by_token() -> None:
    for compiler in Compiler:
        found = rows(compile_schedule(ONE, spec_arm(compiler, None)))[1:]
        assert [(row.a, row.b, row.kind) for row in found] == [(n, n + 1, RowKind.DECODE) for n in range(9, 16)]


def test_states_inside_a_window_are_stored_from_it() -> None:
    """A track grid of 64 inside a window, and a block of 16 that it completes."""
    cases: list[tuple[Policy, Rollback]] = [
        (SglangPolicy(cache="sglang-extra-buffer", track_interval=64), Rollback.COPY),
        (VllmPolicy(cache="vllm-align", block=16, retain="all"), Rollback.RECOVER),
    ]
    for policy, method in cases:
        schedule = compile_schedule(boundary(3, 2), spec_arm(Compiler.WARM, method, policy=policy))
        window = next(row for row in rows(schedule) if row.kind is RowKind.VERIFY and row.b - row.a == 4)
        # The window covers 126 … 129 and keeps all of it.
        taken = window.snapshots[-1]
        assert (window.a, taken.source, taken.chunk, taken.conv_end) == (126, Source.POSITION, 2, 2)
        assert 128 in [c.position for c in schedule.requests[0].creates]


def test_a_window_that_does_not_fit_is_decoded_without_drafts() -> None:
    """A preemption and a fork in the midst of a window, and a budget that is smaller than it."""
    counts: dict[str, Counts] = {"p": [(0, 0), (4, 4), (4, 4)]}
    turns = [turn("u", None, "user", 20), *shared_answers("u", ["p", "q"], [14, 16], [14, 4])]
    fork = Fork(kind="fork", turn="q", source="p", offset=3)
    off = Preemption(kind="preemption", turn="p", after=24 + 3, resume="swap")
    after = Preemption(kind="preemption", turn="p", after=24 + 6, resume="swap")
    plain = group(turns, ["p", "q"])
    whole, single = Window(1, tuple(TraceTree(plain.traces[0]).path("p").answer[2:6]), 4), Window(1)
    for events, policy, second in (
        ((), TURN, whole),
        ((fork,), TURN, single),
        ((off,), TURN, single),
        ((after,), TURN, whole),  # taken off at the window's very end
        ((), TURN.model_copy(update={"budget": 4}), single),
        ((), TURN.model_copy(update={"budget": 5}), whole),
    ):
        busy = windowed(plain, counts, *events)
        schedule = compile_schedule(busy, spec_arm(Compiler.WARM, Rollback.SLOTS, policy=policy))
        assert_played(schedule)
        assert schedule.requests[0].windows[1] == second


def test_mates_run_their_windows_in_one_pass() -> None:
    turns = []
    for name in "pq":
        turns += [turn(f"u{name}", None, "user", 20), turn(name, f"u{name}", "assistant", 12)]
    mates = BatchMates(kind="batch", turn="p", mates=("q",))
    busy = windowed(group(turns, ["p", "q"]), {"p": [(3, 0)] * 12, "q": [(3, 3)] * 3}, mates)
    schedule = compile_schedule(busy, spec_arm(Compiler.WARM, Rollback.RECOVER))
    assert_played(schedule)
    steps = [
        [(row.request, row.b - row.a) for row in step.rows] for step in schedule.steps if isinstance(step, Compute)
    ]
    assert steps[1:3] == [[(0, 4), (1, 4)]] * 2
    plain = compile_schedule(busy, spec_arm(Compiler.WARM, None))
    assert_played(plain)


PLAN_FAULTS: dict[str, Callable[[Schedule], Schedule]] = {
    "accepted off by one": plans.kept_off(1),
    "one too few": plans.kept_off(-1),
    "conv at the window's end": plans.with_kept(plans.conv_not_rolled_back),
    "cache not cropped": plans.with_kept(plans.cache_not_cropped),
}


@pytest.mark.parametrize("method", Rollback, ids=str)
@pytest.mark.parametrize("name", PLAN_FAULTS)
def test_the_simulator_names_a_wrong_rollback(name: str, method: Rollback) -> None:
    right = compile_schedule(GROUPS["each count"], spec_arm(Compiler.WARM, method))
    run = simulate(PLAN_FAULTS[name](right))
    assert run.wrong_labels > 0
    assert "of a window; slot" in run.problems[0]


def test_commit_late_moves_the_state_alone_and_only_after_a_rejection() -> None:
    right = compile_schedule(GROUPS["each count"], spec_arm(Compiler.WARM, Rollback.RECOVER))
    pairs = [pair for pair in zip(rows(right), rows(commit_late(right)), strict=True) if pair[0].kept]
    for before, after in pairs:
        assert before.kept and after.kept and after.kept.conv == after.kept.pages == before.kept.temporal
        assert after.kept.temporal == before.kept.temporal + (before.b - before.a > before.kept.temporal)
    assert simulate(commit_late(right)).wrong_labels > 0


@pytest.mark.parametrize(
    ("method", "pool", "ring", "policy", "words"),
    [
        (Rollback.RECOVER, PoolDtype.FP16, None, TURN, "arm warm/.*spec-recover: .*fp16 needs rollback copy or replay"),
        (Rollback.SLOTS, PoolDtype.FP16, None, TURN, "fp16 needs"),
        (Rollback.REPLAY, PoolDtype.FP32, 5, TURN, "group 'g', arm .*ring of 5 tokens with windows of 6"),
        (Rollback.COPY, PoolDtype.FP32, 8, TURN, "a ring is of rollback replay, not copy"),
        (Rollback.RECOVER, PoolDtype.FP32, None, VllmPolicy(cache="vllm-align", block=5), "blocks of 5 tokens"),
        (Rollback.COPY, PoolDtype.FP32, None, VllmPolicy(cache="vllm-align"), "of rollback recover or slots, not copy"),
    ],
)
def test_what_an_engine_would_refuse_late_is_refused_early(
    method: Rollback, pool: PoolDtype, ring: int | None, policy: Policy, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        compile_schedule(GROUPS["each count"], spec_arm(Compiler.WARM, method, pool, policy, ring))


def test_a_ring_of_one_window_is_enough() -> None:
    arm = spec_arm(Compiler.WARM, Rollback.REPLAY, ring=6)
    assert_played(compile_schedule(GROUPS["each count"], arm))
    assert arm.name.endswith("/fp32/spec-replay-ring6")


def test_an_arm_that_cannot_speculate_says_why() -> None:
    plain = spec_arm(Compiler.WARM, Rollback.SLOTS).model_dump()
    with pytest.raises(ValidationError, match="a cold arm decodes token by token"):
        type(spec_arm(Compiler.WARM, None)).model_validate(plain | {"compiler": "cold"})
    with pytest.raises(ValidationError, match="verified by the recurrent kernel"):
        type(spec_arm(Compiler.WARM, None)).model_validate(plain | {"answer": "chunk"})


def test_windows_are_checked_before_a_policy_is_known() -> None:
    check_playable(ONE)
    trace = ONE.traces[0]
    wrong = trace.events[0].model_copy(update={"accepted": 2})
    with pytest.raises(UsageError, match="turn 'a0': window at token 0 says that 2 drafts were accepted, but 1"):
        check_playable(ONE.model_copy(update={"traces": (trace.model_copy(update={"events": (wrong,)}),)}))
