"""vLLM's blocks by hand: where prefill is cut, which block ends have a state, partial tails, deferred hits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.schedule.operations import Begin, Move, Run, Store
from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job
from replaycheck.schedule.requests import plan_group, plan_requests
from replaycheck.schedule.steps import Written
from replaycheck.schema.policy import VllmPolicy
from replaycheck.schema.trace import BatchMates, Group, Preemption
from replaycheck.state_probes.groups import chain, group, turn, with_events

ALIGN = VllmPolicy(cache="vllm-align", block=64)
ALL = VllmPolicy(cache="vllm-align", block=64, retain="all")
TAILS = VllmPolicy(cache="vllm-align", block=64, tail=16)
SINGLE = VllmPolicy(cache="vllm-align", block=1, retain="all")


def pieces(plain: Group, policy: VllmPolicy, request: int = 0) -> list[tuple[int, int]]:
    """(a, b) of the prefill pieces of a request."""
    runs = [op for op in plan_group(plain, policy).operations if isinstance(op, Run)]
    spans = [span for op in runs for span in op.spans if span.request == request]
    return [(span.piece.a, span.piece.b) for span in spans if not span.piece.decoding]


def first_passes(plain: Group, policy: VllmPolicy, count: int) -> list[list[tuple[int, int, int]]]:
    """(request, a, b) of the first forward passes."""
    runs = [op for op in plan_group(plain, policy).operations if isinstance(op, Run)]
    return [[(s.request, s.piece.a, s.piece.b) for s in op.spans] for op in runs[:count]]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (63, [(0, 63)]),
        (64, [(0, 64)]),
        (65, [(0, 64), (64, 65)]),
        (128, [(0, 64), (64, 128)]),
        (129, [(0, 128), (128, 129)]),
        (200, [(0, 192), (192, 200)]),
    ],
)
def test_prefill_stops_at_the_last_block_end_before_the_last_token(
    prompt: int, expected: list[tuple[int, int]]
) -> None:
    assert pieces(chain(prompt - 4, 2), ALIGN) == expected


def test_a_block_that_no_call_ended_in_has_no_state() -> None:
    """One call runs over two block ends; only the third block gets one, and a prompt that shares two hits nothing."""
    turns = [turn("y", None, "system", 140)]
    for name in ("p", "q"):
        turns += [turn(f"u{name}", "y", "user", 60), turn(name, f"u{name}", "assistant", 2)]
    plans = plan_requests(group(turns, ["p", "q"]), ALL)
    assert [c.position for c in plans[0].creates] == [192]
    assert plans[1].start == 0


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (100, [(0, 64), (64, 128), (128, 192), (192, 200)]),
        (130, [(0, 128), (128, 192), (192, 200)]),
        (
            30,
            [
                (0, 30),
                (30, 60),
                (60, 64),
                (64, 94),
                (94, 124),
                (124, 128),
                (128, 158),
                (158, 188),
                (188, 192),
                (192, 200),
            ],
        ),
    ],
)
def test_a_budget_is_clipped_to_block_ends_unless_a_block_is_too_wide_for_it(
    budget: int, expected: list[tuple[int, int]]
) -> None:
    assert pieces(chain(196, 2), ALIGN.model_copy(update={"budget": budget})) == expected


@given(
    st.integers(1, 400),
    st.integers(0, 20),
    st.sampled_from([16, 48, 64]),
    st.sampled_from([None, 8]),
    st.integers(1, 200),
)
def test_cuts_keep_their_invariants(prompt: int, start: int, block: int, tail: int | None, limit: int) -> None:
    """Progress when alone; no piece runs over the last block end before the last token; one mid-block stops at its end."""
    policy = VllmPolicy(cache="vllm-align", block=block, tail=tail, budget=limit)
    job = Job(0, tuple(range(prompt + 1)), prompt, prompt + 1, goal=prompt)
    job.position = min(start * (tail or block), (prompt - 1) // block * block)
    cache = prefix_cache(policy)
    while job.position < job.goal:
        a, b = job.position, cache.cut(job, limit)
        last = (prompt - 1) // block * block
        assert a < b <= min(a + limit, prompt)
        assert not a < last < b
        assert a % block == 0 or b <= (a // block + 1) * block
        assert b % block == 0 or b == prompt or block > limit or (tail and b == (prompt - 1) // tail * tail)
        job.position = b


@pytest.mark.parametrize(
    ("prompt", "goal", "start", "limit", "end"),
    [
        (200, 200, 0, 500, 192),  # the last block end before the last token
        (200, 200, 192, 500, 200),
        (200, 200, 0, 130, 128),  # a budget is clipped to a block end,
        (200, 200, 0, 64, 64),
        (200, 200, 0, 63, 0),  # and what is left of it waits if it is less than a block
        (300, 300, 128, 130, 256),  # from a block end on, the next block end is no stop
        (200, 200, 16, 500, 64),  # but one that begins inside a block stops at its end
        (200, 200, 16, 47, 16),
        (200, 200, 16, 48, 64),
        (60, 129, 0, 127, 64),  # computed again up to 129 tokens: all but the last are clipped like a prompt
        (60, 129, 0, 128, 128),
        (60, 129, 128, 500, 129),
        (60, 61, 0, 500, 61),
    ],
)
def test_the_worked_table_of_cuts(prompt: int, goal: int, start: int, limit: int, end: int) -> None:
    """Blocks of 64 and a budget of 500, of which ``limit`` is left."""
    job = Job(0, tuple(range(goal + 1)), prompt, goal + 1, start, goal)
    assert prefix_cache(ALIGN.model_copy(update={"budget": 500})).cut(job, limit) == end


@pytest.mark.parametrize(
    ("prompt", "goal", "start", "end"),
    [
        (200, 200, 128, 192),
        (220, 220, 192, 208),
        (81, 81, 64, 80),
        (100, 140, 0, 128),
        (100, 125, 64, 96),
        (100, 100, 96, 100),
    ],
)
def test_the_prompts_last_hash_block_is_a_stop_after_the_last_block_end(
    prompt: int, goal: int, start: int, end: int
) -> None:
    """Blocks of 64 with tails of 16; (100, 140): of a prompt computed again, where 128 comes after its own 96."""
    job = Job(0, tuple(range(goal + 1)), prompt, goal + 1, start, goal)
    assert prefix_cache(TAILS).cut(job, 500) == end


@pytest.mark.parametrize(
    ("budget", "passes"),
    [(64, [[(0, 0, 64)], [(0, 64, 65)], [(0, 65, 66)], [(1, 0, 64)]]), (65, [[(0, 0, 64)], [(0, 64, 65), (1, 0, 64)]])],
)
def test_a_prompt_waits_while_less_than_a_block_of_the_budget_is_left(
    budget: int, passes: list[list[tuple[int, int, int]]]
) -> None:
    turns = [turn("u", None, "user", 60), turn("p", "u", "assistant", 2)]
    turns += [turn("w", None, "user", 96), turn("q", "w", "assistant", 1)]
    together = with_events(group(turns, ["p", "q"]), BatchMates(kind="batch", turn="p", mates=("q",)))
    assert first_passes(together, ALL.model_copy(update={"budget": budget}), len(passes)) == passes


@pytest.mark.parametrize(
    ("prompt", "hit"), [(16, 0), (17, 16), (32, 16), (33, 32), (64, 48), (65, 64), (80, 64), (81, 80), (200, 192)]
)
def test_a_resent_prompt_hits_its_last_hash_block(prompt: int, hit: int) -> None:
    once = chain(prompt - 4, 2)
    again = once.model_copy(update={"requests": once.requests * 2})
    assert plan_requests(again, TAILS)[1].start == hit
    assert plan_requests(again, ALIGN)[1].start == hit // 64 * 64


@pytest.mark.parametrize(("retain", "kept"), [("reachable", [64]), (128, [64, 128, 256]), ("all", [64, 128, 192, 256])])
def test_sparse_retention_keeps_what_a_resent_prompt_reaches_and_one_a_segment(
    retain: str | int, kept: list[int]
) -> None:
    policy = VllmPolicy.model_validate({"cache": "vllm-align", "block": 64, "retain": retain})
    assert [c.position for c in plan_requests(chain(66, 200), policy)[0].creates] == kept


def test_the_running_state_moves_at_every_block_end_whether_it_is_kept_or_not() -> None:
    for policy in (ALIGN, ALL):
        moves = [op.state.position for op in plan_group(chain(66, 130), policy).operations if isinstance(op, Move)]
        assert moves == [64, 128, 192]


def test_a_state_that_moves_on_at_the_prompts_end_was_written_by_prefill() -> None:
    moves = [op.state for op in plan_group(chain(60, 70), ALL).operations if isinstance(op, Move)]
    assert [(state.position, state.written) for state in moves] == [(64, Written.FINAL), (128, Written.DECODE)]


def test_a_block_end_is_left_behind_once_and_nothing_by_the_steps_after_it() -> None:
    """The prompt ends on a block end, where the first decode step begins."""
    runs = [op for op in plan_group(chain(124, 60), ALL).operations if isinstance(op, Run)]
    taken = [(span.piece.b, take.checkpoint.position) for op in runs for span in op.spans for take in span.takes]
    assert taken == [(64, 64), (128, 128)]


def test_a_twin_waits_for_the_block_that_is_written_in_this_step() -> None:
    turns = [turn("u", None, "user", 150)]
    turns += [turn(name, "u", "assistant", 3) for name in ("p", "q")]
    together = with_events(group(turns, ["p", "q"]), BatchMates(kind="batch", turn="p", mates=("q",)))
    plan = plan_group(together, ALIGN)
    assert [request.start for request in plan.requests] == [0, 128]
    assert [type(op) for op in plan.operations[:2]] == [Begin, Run]


def test_a_twin_whose_prompt_ends_with_the_block_does_not_wait_for_it() -> None:
    """A prompt of 64 tokens must compute its last one, so a state of 64 tokens is of no use to it."""
    turns = [turn("u", None, "user", 60), *(turn(name, "u", "assistant", 3) for name in ("p", "q"))]
    together = with_events(group(turns, ["p", "q"]), BatchMates(kind="batch", turn="p", mates=("q",)))
    assert first_passes(together, ALL, 1) == [[(0, 0, 64), (1, 0, 64)]]


def test_a_prompt_that_hits_a_block_does_not_wait_for_the_same_block_of_another() -> None:
    """A second answer to a prompt of 64 tokens writes block 0 again, beside a request that continues the first answer."""
    turns = [turn("u", None, "user", 60), *(turn(name, "u", "assistant", 3) for name in ("p", "q"))]
    turns += [turn("v", "p", "user", 20), turn("c", "v", "assistant", 2)]
    together = with_events(group(turns, ["p", "q", "c"]), BatchMates(kind="batch", turn="q", mates=("c",)))
    assert [(1, 0, 64), (2, 64, 91)] in first_passes(together, ALL, 9)


def test_a_twin_waits_for_a_block_of_one_token_too() -> None:
    """The first request is taken off after one token, whose state the second one hits a pass later."""
    turns = [turn("u", None, "user", 4), *(turn(name, "u", "assistant", 3) for name in ("p", "q"))]
    off = Preemption(kind="preemption", turn="p", after=1, resume="swap")
    together = with_events(group(turns, ["p", "q"]), off, BatchMates(kind="batch", turn="p", mates=("q",)))
    assert first_passes(together, SINGLE, 2) == [[(0, 0, 1)], [(1, 1, 7)]]


def test_a_block_of_one_token_is_a_hit() -> None:
    """A system prompt and a question share BOS alone."""
    turns = [turn("y", None, "system", 4), turn("u", "y", "user", 4), turn("p", "u", "assistant", 2)]
    turns += [turn("w", None, "user", 4), turn("q", "w", "assistant", 2)]
    off = Preemption(kind="preemption", turn="p", after=1, resume="recompute")
    assert plan_requests(with_events(group(turns, ["p", "q"]), off), SINGLE)[1].start == 1


def test_what_a_request_copied_out_can_leave_for_what_it_donates() -> None:
    """Room for one state: the partial tail of the prompt, 32 tokens, is nobody's when the block of 64 is full."""
    plan = plan_group(chain(36, 60), TAILS.model_copy(update={"capacity": 1, "retain": "all"}))
    stored = [op.stored for op in plan.operations if isinstance(op, Store)]
    assert [(s.take.checkpoint.position, s.evicts.position if s.evicts else None) for s in stored] == [
        (32, None),
        (64, 32),
    ]


def test_none_caches_nothing_and_cuts_nothing() -> None:
    again = chain(150, 5)
    again = again.model_copy(update={"requests": again.requests * 2})
    plan = plan_group(again, VllmPolicy(cache="vllm-none"))
    assert plan.hits == 0
    assert all(request.creates == () for request in plan.requests)
    assert pieces(again, VllmPolicy(cache="vllm-none"), 1) == [(0, 154)]
