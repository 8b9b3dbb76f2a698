"""The engine's loop at its boundaries, by hand: the smallest budgets, who goes first, when a request is taken off, forks."""

from __future__ import annotations

import pytest

from replaycheck.errors import InternalError
from replaycheck.schedule.operations import Branch, Operation, Run
from replaycheck.schedule.prefix.job import Piece
from replaycheck.schedule.requests import plan_group
from replaycheck.schema.arm import CheckpointPolicy, Kernel
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import BatchMates, Event, Fork, Group, Preemption
from replaycheck.state_probes.groups import GROUPS, chain, group, shared_answers, turn, windowed, with_events
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER

NONE = VllmPolicy(cache="vllm-none")
PAGES = SglangPolicy(cache=EXTRA_BUFFER, page=16, track_interval=64)


def spans(plain: Group, policy: Policy, answer: Kernel = Kernel.RECURRENT) -> list[list[tuple[int, int, int]]]:
    """(request, a, b) of each forward pass."""
    runs = [op for op in plan_group(plain, policy, answer).operations if isinstance(op, Run)]
    return [[(s.request, s.piece.a, s.piece.b) for s in op.spans] for op in runs]


def pieces(plain: Group, policy: Policy, request: int) -> list[Piece]:
    runs = [op for op in plan_group(plain, policy).operations if isinstance(op, Run)]
    return [span.piece for op in runs for span in op.spans if span.request == request]


def questions(*sizes: tuple[int, int], together: bool = True, events: tuple[Event, ...] = ()) -> Group:
    """Prompts p0, p1, … with so many tokens and answers with so many inputs, side by side or one after the other."""
    turns, names = [], [f"p{i}" for i in range(len(sizes))]
    for name, (prompt, inputs) in zip(names, sizes, strict=True):  # BOS, role … END, role; the answer's END is no input
        turns += [turn(f"u{name}", None, "user", prompt - 4), turn(name, f"u{name}", "assistant", inputs)]
    mates = (BatchMates(kind="batch", turn=names[0], mates=tuple(names[1:])),) if together else ()
    return with_events(group(turns, names), *mates, *events)


# -- budgets


def test_a_budget_of_one_runs_one_token_a_pass_prompt_and_answer() -> None:
    passes = spans(questions((5, 3)), CheckpointPolicy(every=64, budget=1))
    assert passes == [[(0, i, i + 1)] for i in range(8)]


def test_with_a_budget_of_one_an_answer_is_over_before_its_batch_mate_begins() -> None:
    passes = spans(questions((5, 3), (4, 2)), CheckpointPolicy(every=64, budget=1))
    assert passes == [[(0, i, i + 1)] for i in range(8)] + [[(1, i, i + 1)] for i in range(6)]


def test_two_answers_that_share_a_budget_of_one_run_one_after_the_other() -> None:
    """Both are decoding at once, since the second is a fork of the first."""
    turns = [turn("u", None, "user", 4), *shared_answers("u", ["p", "q"], [3, 2], [3, 0])]
    forked = with_events(group(turns, ["p", "q"]), Fork(kind="fork", turn="q", source="p", offset=0))
    passes = spans(forked, CheckpointPolicy(every=64, budget=1))
    prompt = [[(0, i, i + 1)] for i in range(8)]
    assert passes == [*prompt, *([(0, i, i + 1)] for i in (8, 9, 10)), *([(1, i, i + 1)] for i in (8, 9))]


def test_a_budget_that_one_token_is_left_of_admits_one_token() -> None:
    passes = spans(questions((7, 1), (4, 1)), CheckpointPolicy(every=64, budget=8))
    assert passes[0] == [(0, 0, 7), (1, 0, 1)]


def test_a_prompt_that_is_done_decodes_before_the_prefill_that_was_admitted_first_goes_on() -> None:
    """24 tokens a pass are one page of the long prompt and the whole short one, which ends off the page."""
    passes = spans(questions((100, 1), (8, 2)), PAGES.model_copy(update={"budget": 24}))
    assert passes[:2] == [[(0, 0, 16), (1, 0, 8)], [(1, 8, 9), (0, 16, 32)]]


@pytest.mark.parametrize(("sizes", "stuck"), [([(100, 1)], r"\[0\]"), ([(100, 1), (100, 1)], r"\[0, 1\]")])
def test_requests_that_can_never_go_on_are_named(sizes: list[tuple[int, int]], stuck: str) -> None:
    """A budget below the page, which the policy refuses: nothing fits, and the loop must not turn for ever."""
    policy = PAGES.model_copy(update={"budget": 15})
    with pytest.raises(InternalError, match=f"group 'g': requests {stuck} make no progress"):
        plan_group(questions(*sizes), policy)


# -- taken off


def test_a_preemption_counts_tokens_after_the_hit() -> None:
    """The second prompt has 112 tokens, and its hit of 64 isn't counted."""
    event = Preemption(kind="preemption", turn="a1", after=10, resume="recompute")
    passes = spans(with_events(chain(96, 5, 3, 9), event), CheckpointPolicy(every=64))
    assert [passed for passed in passes if passed[0][0] == 1][:2] == [[(1, 64, 74)], [(1, 64, 112)]]


@pytest.mark.parametrize(("after", "recorded"), [(63, None), (73, None), (74, 74), (75, 75), (80, 80)])
def test_tokens_that_are_computed_again_are_recorded_once(after: int, recorded: int | None) -> None:
    """The prompt has 74 tokens: from there on, what was recorded before it was taken off is recorded no more."""
    event = Preemption(kind="preemption", turn="a0", after=after, resume="recompute")
    plan = plan_group(with_events(chain(70, 9), event), NONE)
    runs = [span for op in plan.operations if isinstance(op, Run) for span in op.spans]
    again = next(i for i, span in enumerate(runs[1:], 1) if span.piece.a == 0)
    assert runs[again].score_from == recorded
    assert [span.score_from for span in runs if span is not runs[again]] == [None] * (len(runs) - 1)


def test_a_request_that_was_taken_off_comes_back_after_the_next_one_and_before_the_third() -> None:
    event = Preemption(kind="preemption", turn="p0", after=12, resume="recompute")
    three = questions((20, 3), (8, 2), (8, 2), together=False, events=(event,))
    order = list(dict.fromkeys(request for passed in spans(three, NONE)[1:] for request, _, _ in passed))
    assert order == [1, 0, 2]


def test_an_answer_to_an_answer_continues_it() -> None:
    """Two assistant turns in a row: the first is taken off, and resumes before the second one is asked for."""
    turns = [turn("u", None, "user", 8), turn("p", "u", "assistant", 3), turn("q", "p", "assistant", 2)]
    event = Preemption(kind="preemption", turn="p", after=12, resume="recompute")
    passes = spans(with_events(group(turns, ["p", "q"]), event), NONE)
    assert list(dict.fromkeys(request for passed in passes[1:] for request, _, _ in passed)) == [0, 1]


# -- forks


def names(operations: tuple[Operation, ...]) -> list[str]:
    return [type(op).__name__ for op in operations]


def test_a_fork_of_a_prompt_copies_the_state_after_what_the_prompt_stores() -> None:
    turns = [turn("u", None, "user", 20), *shared_answers("u", ["p", "q"], [2, 1], [2, 0])]
    plain = with_events(group(turns, ["p", "q"]), Fork(kind="fork", turn="q", source="p", offset=0))
    plan = plan_group(plain, CheckpointPolicy(prompt_end=True))
    assert names(plan.operations)[:5] == ["Begin", "Run", "Store", "Branch", "Run"]


def test_what_a_fork_copies_is_the_sources_and_what_is_stored_is_copied_by_nobody() -> None:
    plan = plan_group(GROUPS["beam"], NONE)
    copied = [[state.position - request.prompt for state in request.copies] for request in plan.requests]
    assert copied == [[0, 0, 7, 7, 14], [], [], [], [], []]
    assert {state.request for state in plan.requests[0].copies} == {0}
    once = chain(100, 5)
    again = once.model_copy(update={"requests": once.requests * 2})
    for policy in (SglangPolicy(cache=NO_BUFFER), SglangPolicy(cache=EXTRA_BUFFER, track_interval=64)):
        # The second request leaves the same states; they aren't stored again, and aren't copied to a buffer either.
        assert [request.copies for request in plan_group(again, policy).requests] == [(), ()]


@pytest.mark.parametrize("pipeline", [1, 2])
def test_an_answer_can_be_forked_from_its_last_input(pipeline: int) -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [5, 9], [5, 5])]
    plain = with_events(group(turns, ["p", "q"]), Fork(kind="fork", turn="q", source="p", offset=5))
    plan = plan_group(plain, NONE.model_copy(update={"pipeline": pipeline}))
    (branch,) = [op for op in plan.operations if isinstance(op, Branch)]
    assert branch.state.position == plan.requests[0].computed_end == 18


def test_a_window_stops_at_a_fork_from_its_own_answer_only() -> None:
    """Both answers have windows of four kept tokens; the first is forked after its first token, so it takes single steps."""
    turns = [turn("u", None, "user", 20), *shared_answers("u", ["p", "q"], [9, 9], [9, 1])]
    turns += [turn("v", None, "user", 20), turn("r", "v", "assistant", 9)]
    windows = {"p": [(3, 3)] * 2, "r": [(3, 3)] * 2}
    events = (
        Fork(kind="fork", turn="q", source="p", offset=1),
        BatchMates(kind="batch", turn="p", mates=("r",)),
    )
    plain = windowed(group(turns, ["p", "q", "r"]), windows, *events)
    source, other = pieces(plain, NONE, 0), pieces(plain, NONE, 2)
    assert [(piece.a, piece.b) for piece in source[:3]] == [(0, 24), (24, 25), (25, 26)]
    assert [(piece.a, piece.b) for piece in other] == [(0, 24), (24, 28), (28, 32), (32, 33)]


# -- two passes in flight


def test_an_answer_in_one_extend_runs_one_token_past_its_end_too() -> None:
    passes = spans(questions((10, 6)), NONE.model_copy(update={"pipeline": 2}), Kernel.CHUNK)
    assert passes == [[(0, 0, 10)], [(0, 10, 16)], [(0, 16, 17)]]
