"""Plans of all methods on token lists: right for every accept pattern, and every fault of a plan shows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.schedule.speculation.method import Rollback, Setup
from replaycheck.schedule.speculation.planner import Answer, planner
from replaycheck.schedule.speculation.steps import (
    CopyConv,
    CopyState,
    Crop,
    Fold,
    Memory,
    Operation,
    Place,
    Push,
    Rebuild,
    Verify,
)
from replaycheck.schedule.speculation.symbolic import NOTHING, begin, execute
from tests.schedule.speculation.answers import Change, made, run
from tests.schedule.speculation.conflicts import conflicts

WIDTH = 4
SETUPS = {
    "slots": Setup(Rollback.SLOTS, WIDTH),
    "slots-aligned": Setup(Rollback.SLOTS, WIDTH, block=5),
    "copy": Setup(Rollback.COPY, WIDTH),
    "copy-tracked": Setup(Rollback.COPY, WIDTH, interval=6),
    "recover": Setup(Rollback.RECOVER, WIDTH),
    "recover-aligned": Setup(Rollback.RECOVER, WIDTH, block=5),
    "replay": Setup(Rollback.REPLAY, WIDTH, capacity=WIDTH),
    "replay-lagging": Setup(Rollback.REPLAY, WIDTH, capacity=11),
}
counts = st.integers(0, WIDTH - 1).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d)))


@pytest.mark.parametrize("name", sorted(SETUPS))
@given(
    st.lists(st.tuples(st.integers(0, 12), st.lists(counts, max_size=20)), min_size=1, max_size=3), st.integers(0, 9)
)
@settings(max_examples=40)
def test_any_accept_pattern_in_any_batches(
    name: str, requests: list[tuple[int, list[tuple[int, int]]]], seed: int
) -> None:
    paths, answers = made([p for p, _ in requests], 20, [c for _, c in requests], seed)
    assert run(SETUPS[name], paths, answers, seed).problems == []


@pytest.mark.parametrize("name", ["slots-aligned", "recover-aligned", "copy-tracked"])
def test_windows_that_land_on_every_place_of_a_boundary(name: str) -> None:
    """Prompts that put a window before, on and after a boundary, with every count of drafts and accepted ones."""
    for prompt in range(1, 8):
        for drafts in range(WIDTH):
            for accepted in range(drafts + 1):
                paths, answers = made([prompt], 9, [[(drafts, accepted)] * 5], prompt)
                assert run(SETUPS[name], paths, answers).problems == []


def shifted(by: int) -> Change:
    """F47: the rollback goes to one token more or less (a window's last column stays)."""

    def change(op: Operation) -> Operation:
        if isinstance(op, CopyState) and op.source.memory is Memory.SCRATCH:
            return replace(op, source=replace(op.source, slot=op.source.slot + by))
        return replace(op, length=op.length + by) if isinstance(op, Rebuild) else op

    return change


def no_offset(op: Operation) -> Operation:
    """F48, F50: the convolution keeps the window from its first column on."""
    return replace(op, offset=0) if isinstance(op, CopyConv) else op


def plain_column(op: Operation) -> Operation:
    """F51, report B23: the state of the first position is read, whatever was accepted."""
    return replace(op, source=op.conv_source) if isinstance(op, Verify) else op


def own_window(op: Operation) -> Operation:
    """F49: a step reads the extended window as if it were a plain one."""
    return replace(op, conv_offset=0) if isinstance(op, Verify) else op


def other_row(op: Operation) -> Operation:
    """F55, F62: records or counts of another row of the batch."""
    return replace(op, row=0) if isinstance(op, Rebuild | Push) else op


def dropped(*kinds: type) -> Change:
    """F58, F60: a commit, a copy or a fold that doesn't happen."""
    return lambda op: None if isinstance(op, kinds) else op


FAULTS: list[tuple[str, str, Change]] = [
    ("copy", "one-more", shifted(1)),
    ("copy", "one-less", shifted(-1)),
    ("recover", "one-less", shifted(-1)),
    ("recover-aligned", "one-more", shifted(1)),
    ("copy", "conv-kept", no_offset),
    ("recover", "conv-kept", no_offset),
    ("replay", "conv-kept", no_offset),
    ("slots", "first-column", plain_column),
    ("slots", "plain-window", own_window),
    ("recover", "other-row", other_row),
    ("replay", "other-row", other_row),
    ("recover", "no-commit", dropped(Rebuild)),
    ("copy", "no-copy", dropped(CopyState)),
    ("replay-lagging", "no-fold", dropped(Fold)),
    ("recover-aligned", "no-move", dropped(CopyState, CopyConv)),
    ("copy", "cache-kept", dropped(Crop)),
]


@pytest.mark.parametrize(("name", "change"), [(n, c) for n, _, c in FAULTS], ids=[f"{n}-{f}" for n, f, _ in FAULTS])
def test_a_fault_of_a_plan_shows(name: str, change: Change) -> None:
    pattern = [(3, 2), (3, 0), (0, 0), (2, 2), (3, 1), (1, 0)]
    paths, answers = made([3, 8], 16, [pattern, pattern[::-1]], 1)
    assert run(SETUPS[name], paths, answers).problems == []
    assert run(SETUPS[name], paths, answers, change=change).problems


def test_a_commit_that_happens_twice_shows() -> None:
    """F58: the second one applies records to a checkpoint that they weren't made from."""
    paths, answers = made([3], 12, [[(3, 2), (3, 1)]], 1)
    plan = planner(SETUPS["recover"], answers)
    found = begin(SETUPS["recover"], plan, paths)
    for index in range(2):
        operations = plan.step([(0, index)])
        execute(found, plan, [op for op in operations for _ in range(2 if isinstance(op, Rebuild) else 1)])
    assert any("should hold" in problem for problem in found.problems)


@pytest.mark.parametrize("name", sorted(SETUPS))
def test_copies_of_a_step_can_run_side_by_side(name: str) -> None:
    """Copies before and after the forward pass, each in one launch for all requests; boundaries of two in one step."""
    for prompt, accepted in product(range(1, 8), range(WIDTH)):
        _, answers = made([prompt, prompt + 1], 12, [[(3, accepted)] * 6] * 2, prompt)
        plan = planner(SETUPS[name], answers)
        for index in range(min(len(answer.windows) for answer in answers)):
            operations = plan.step([(0, index), (1, index)])
            forward = max(i for i, op in enumerate(operations) if isinstance(op, Verify))
            assert conflicts(operations[:forward]) == []
            if (
                SETUPS[name].method is not Rollback.RECOVER
            ):  # whose compaction is one kernel that reads before it writes
                assert conflicts(operations[forward:]) == []


def test_copies_whose_order_matters_are_named() -> None:
    one, two, three = (Place(Memory.POOL, slot) for slot in (1, 2, 3))
    assert conflicts([CopyState(one, 2), CopyState(two, 3)]) == [
        "slot 2 is written by one copy of the step and read by another"
    ]
    assert len(conflicts([CopyConv(one, 0, 3), CopyConv(two, 1, 3)])) == 2
    assert conflicts([CopyConv(three, 1, 3), CopyState(one, 2)]) == []


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("slots", 4),  # one for each token of a window
        ("slots-aligned", 6),  # two blocks of 5 tokens, and a window in the third
        ("copy", 1),
        ("copy-tracked", 2),  # and the snapshot
        ("recover", 1),
        ("recover-aligned", 3),
        ("replay", 1),
    ],
)
def test_the_slots_that_a_request_takes(name: str, slots: int) -> None:
    """Two requests beside the null slot: 3 tokens of prompt, and windows up to 12 tokens on."""
    _, answers = made([3, 3], 12, [[(3, 3)] * 3, [(3, 3)] * 3], 0)
    assert [answer.reach for answer in answers] == [15, 15]
    assert planner(SETUPS[name], answers).slots == 1 + 2 * slots


def test_scratch_has_a_row_of_states_for_each_row_of_the_batch() -> None:
    _, answers = made([3, 3], 9, [[(3, 1)], [(1, 0)]], 0)
    verify = [op for op in planner(SETUPS["copy"], answers).step([(1, 0), (0, 0)]) if isinstance(op, Verify)]
    assert [[place.slot for place in op.states] for op in verify] == [[1, 2], [5, 6, 7, 8]]


def test_a_ring_is_folded_when_the_next_window_might_not_fit_and_not_before() -> None:
    """A ring of 7 tokens: 3 leave room for a window of 4, and 6 don't."""
    _, answers = made([3], 15, [[(3, 2)] * 4], 0)
    plan = planner(Setup(Rollback.REPLAY, WIDTH, capacity=7), answers)
    assert [any(isinstance(op, Fold) for op in plan.step([(0, index)])) for index in range(4)] == [
        False, True, False, True
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(SETUPS))
def test_a_convolution_window_has_its_history_and_the_other_tokens_of_the_widest_window(name: str) -> None:
    """3 + 4 − 1 columns, from the start and whatever runs; it can be read from columns 0 … 3."""
    paths, answers = made([5, 2], 12, [[(3, 2), (1, 0), (0, 0)]] * 2, 0)
    plan = planner(SETUPS[name], answers)
    found = begin(SETUPS[name], plan, paths)
    assert {len(window) for window in found.windows.values()} == {6}
    for index in range(3):
        execute(found, plan, plan.step([(0, index), (1, index)]))
    assert {len(window) for window in found.windows.values()} == {6}
    assert found.history(Place(Memory.POOL, 99), 3) == [NOTHING] * 3 and found.problems == []
    found.history(Place(Memory.POOL, 99), 4)
    assert found.problems == ["window of slot 99 is read from column 4, past its end"]


def test_a_full_rejection_and_a_full_acceptance_keep_one_and_all() -> None:
    paths, answers = made([5], 9, [[(3, 0), (3, 3)]], 0)
    windows = answers[0].windows
    assert [(w.offset, w.kept) for w in windows[:2]] == [(0, 1), (1, 4)]
    assert windows[0].drafts[0] != paths[0][6] and windows[1].drafts == paths[0][7:10]


def test_the_cache_of_attention_is_cropped_to_the_kept_tokens() -> None:
    paths, answers = made([2], 8, [[(3, 1)]], 0)
    operations = planner(SETUPS["copy"], answers).step([(0, 0)])
    assert [op.tokens for op in operations if isinstance(op, Crop)] == [4]
    assert isinstance(answers[0], Answer) and len(paths[0]) == 10


def test_a_fully_used_pool_has_no_slot_in_two_requests() -> None:
    _, answers = made([3, 3], 8, [[(1, 1)], [(2, 0)]], 0)
    for setup in SETUPS.values():
        plan = planner(setup, answers)
        written: list[set[int]] = []
        for request in range(2):
            states = next(op for op in plan.step([(request, 0)]) if isinstance(op, Verify))
            written.append({states.source, *(p.slot for p in states.states if p.memory is Memory.POOL)})
        assert not written[0] & written[1] and max(*written[0], *written[1]) < plan.slots
