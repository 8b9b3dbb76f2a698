"""vLLM's blocks by hand: where prefill is cut, which block ends have a state, partial tails, deferred hits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.schedule.operations import Begin, Move, Run
from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job
from replaycheck.schedule.requests import plan_group, plan_requests
from replaycheck.schema.policy import VllmPolicy
from replaycheck.schema.trace import BatchMates, Group
from replaycheck.state_probes.groups import chain, group, turn, with_events

ALIGN = VllmPolicy(cache="vllm-align", block=64)
ALL = VllmPolicy(cache="vllm-align", block=64, retain="all")
TAILS = VllmPolicy(cache="vllm-align", block=64, tail=16)


def pieces(plain: Group, policy: VllmPolicy, request: int = 0) -> list[tuple[int, int]]:
    """(a, b) of the prefill pieces of a request."""
    runs = [op for op in plan_group(plain, policy).operations if isinstance(op, Run)]
    spans = [span for op in runs for span in op.spans if span.request == request]
    return [(span.piece.a, span.piece.b) for span in spans if not span.piece.decoding]


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


def test_a_twin_waits_for_the_block_that_is_written_in_this_step() -> None:
    turns = [turn("u", None, "user", 150)]
    turns += [turn(name, "u", "assistant", 3) for name in ("p", "q")]
    together = with_events(group(turns, ["p", "q"]), BatchMates(kind="batch", turn="p", mates=("q",)))
    plan = plan_group(together, ALIGN)
    assert [request.start for request in plan.requests] == [0, 128]
    assert [type(op) for op in plan.operations[:2]] == [Begin, Run]


def test_none_caches_nothing_and_cuts_nothing() -> None:
    again = chain(150, 5)
    again = again.model_copy(update={"requests": again.requests * 2})
    plan = plan_group(again, VllmPolicy(cache="vllm-none"))
    assert plan.hits == 0
    assert all(request.creates == () for request in plan.requests)
    assert pieces(again, VllmPolicy(cache="vllm-none"), 1) == [(0, 154)]
