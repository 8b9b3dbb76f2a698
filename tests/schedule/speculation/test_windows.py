"""Windows from events, made-up drafts, and settings that are refused early."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schedule.speculation.drafts import draft
from replaycheck.schedule.speculation.method import Rollback, Setup
from replaycheck.schedule.speculation.windows import Window, windows_of
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.trace import Speculation

ANSWER = (10, 11, 12, 13, 14, 15)


def event(offset: int, drafts: tuple[int, ...], accepted: int) -> Speculation:
    return Speculation(kind="speculation", turn="t", offset=offset, drafts=drafts, accepted=accepted)


def test_gaps_are_steps_without_drafts() -> None:
    found = windows_of(ANSWER, [event(1, (12, 99), 1)], "t")
    assert found == (Window(0), Window(1, (12, 99), 1), Window(3), Window(4))


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([event(0, (11, 12), 2), event(2, (13,), 1)], "overlaps the one before, which ends at 3"),
        ([event(0, (11,), 2)], "accepts 2 of 1 drafts"),
        ([event(3, (14, 15), 2)], "keeps 3 tokens, but only 5 of the answer's 6 are inputs"),
        ([event(0, (11, 99), 0)], "0 drafts were accepted, but 1 of them are the answer's"),
        ([event(0, (99, 12), 1)], "1 drafts were accepted, but 0 of them are the answer's"),
        ([event(5, (), 0)], "keeps 1 tokens, but only 5"),
    ],
)
def test_events_that_contradict_the_answer_are_refused(events: list[Speculation], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        windows_of(ANSWER, events, "trace a, turn t")


def test_a_right_draft_of_the_last_token_stays_unaccepted() -> None:
    assert windows_of(ANSWER, [event(3, (14, 15), 1)], "t")[-1].kept == 2


counts = st.lists(st.integers(0, 5).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))), max_size=20)


@given(st.integers(2, 30), counts, st.integers(2, 60), st.integers(0, 5))
def test_made_up_drafts_are_windows_of_their_answer(
    length: int, pattern: list[tuple[int, int]], size: int, seed: int
) -> None:
    answer = tuple(i % size for i in range(length))
    found = windows_of(answer, draft("t", answer, pattern, size, seed), "t")
    assert sum(window.kept for window in found) == length - 1
    assert all(0 <= token < size for window in found for token in window.drafts)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"method": Rollback.RECOVER, "block": 4}, "blocks of 4 tokens with windows of 8.*at least the window"),
        ({"method": Rollback.SLOTS, "block": 7}, "blocks of 7 tokens"),
        ({"method": Rollback.COPY, "block": 16}, "an aligned block is of rollback recover or slots, not copy"),
        ({"method": Rollback.REPLAY, "capacity": 7}, "ring of 7 tokens with windows of 8"),
        ({"method": Rollback.REPLAY}, "ring of None tokens"),
        ({"method": Rollback.COPY, "capacity": 16}, "a ring is of rollback replay, not copy"),
        ({"method": Rollback.RECOVER, "pool": PoolDtype.FP16}, "fp32 or bf16; fp16 needs rollback copy or replay"),
        ({"method": Rollback.SLOTS, "pool": PoolDtype.FP16}, "fp16 needs"),
        ({"method": Rollback.COPY, "interval": 7}, "could cross two"),
        ({"method": Rollback.COPY, "width": 0}, "must be at least 1"),
        ({"method": Rollback.COPY, "history": 0}, "history of 0: both must be at least 1"),
    ],
)
def test_settings_that_fail_late_in_an_engine_are_refused_early(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Setup(**{"width": 8, **fields})


def test_settings_at_the_limit_are_accepted() -> None:
    assert Setup(Rollback.RECOVER, 8, PoolDtype.BF16, block=8).block == 8
    assert Setup(Rollback.REPLAY, 8, PoolDtype.FP16, capacity=8).capacity == 8
    assert Setup(Rollback.COPY, 8, PoolDtype.FP16, interval=8).interval == 8
    assert Setup(Rollback.SLOTS, 1, history=1).history == 1
