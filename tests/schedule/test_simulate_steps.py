"""Each rule of the simulator, on plans of a few steps that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replaycheck.schedule.simulate import Content, Simulation, simulate
from replaycheck.schedule.speculation.windows import Window
from replaycheck.schedule.steps import (
    NULL_SLOT,
    Checkpoint,
    Clear,
    Commit,
    Compute,
    Copy,
    CopyReason,
    Evict,
    Free,
    Kept,
    Lag,
    Part,
    RequestPlan,
    Row,
    RowKind,
    Schedule,
    Snapshot,
    Source,
    Step,
    Written,
)
from replaycheck.schema.arm import CheckpointPolicy, Compiler, Kernel, Rollback
from replaycheck.state_probes.policies import arm_of

TOKENS = tuple(range(100, 110))
EARLY, LATE = (Checkpoint(name, 0, at, Written.DECODE) for name, at in (("early", 4), ("late", 6)))
PLAN = RequestPlan(
    trace="t", branch=0, turn=1, cluster="t", tokens=TOKENS, prompt=3, end=10, restore=None, creates=(EARLY, LATE),
    windows=(Window(1, (105, 0), 1), Window(3, (107,), 1)),
)  # fmt: skip


def run(*steps: Step, ring: int = 4) -> Simulation:
    arm = arm_of(Compiler.WARM, CheckpointPolicy(turn_end=True))
    arm = arm.model_copy(update={"rollback": Rollback.REPLAY, "ring": ring, "ring_lag": True})
    return simulate(Schedule(arm, "g", (PLAN,), steps, slots=9, expected_hits=0))


def row(a: int, b: int, source: int = 1, destination: int = 1, snapshots: Sequence[Snapshot] = ()) -> Compute:
    return Compute(
        (Row(0, a, b, RowKind.DECODE, Part.ANSWER, Kernel.RECURRENT, True, source, destination, tuple(snapshots)),)
    )


def window(number: int, kept: Kept, lag: Lag | None = None) -> Compute:
    """A verify row in slot 1; the windows begin at the tokens 4 and 6."""
    asked = PLAN.windows[number]
    a = PLAN.prompt + asked.offset
    return Compute(
        (
            Row(
                0, a, a + asked.length, RowKind.VERIFY, Part.ANSWER, Kernel.RECURRENT, True, 1, 1,
                window=number, accepted=asked.accepted, kept=kept, lag=lag,
            ),
        )
    )  # fmt: skip


TO_4 = (Clear(1), row(0, 4))
STORED = (*TO_4, Copy(CopyReason.FORK, "early", 1, 2), Commit("early", 2))


def test_a_right_plan_is_none_of_these() -> None:
    steps = (*STORED, row(4, 6), Free(1), Copy(CopyReason.RESTORE, "early", 2, 1), Evict("early", 2), Free(2))
    done = run(*steps)
    assert done.problems == []
    assert done.by_step == {}
    assert done.wrong_labels == 0
    assert done.restores == ["early"]
    assert done.slots == {1: Content(TOKENS[:4], 4), 2: Content(TOKENS[:4], 4)}
    assert (done.owners, done.freed) == ({}, {2})


RULES = [
    ("a slot that nothing wrote", (row(0, 4, source=5),), "reads slot 5, which nothing wrote"),
    ("a slot that was freed", (*TO_4, Free(1), row(4, 6)), "reads slot 1, which was freed"),
    ("a stored state", (*STORED, Clear(2)), "writes slot 2, which early is stored in"),
    ("a stored state, by a row", (*STORED, row(4, 6, 1, 2)), "writes slot 2, which early is stored in"),
    ("the null slot", (*TO_4, row(4, 6, 1, NULL_SLOT)), "writes the null slot"),
    ("evicted from elsewhere", (*STORED, Evict("early", 1)), "evicts early from slot 1, which doesn't hold it"),
    ("evicted by another name", (*STORED, Evict("late", 2)), "evicts late from slot 2, which doesn't hold it"),
    ("freed while stored", (*STORED, Free(2)), "frees slot 2, which early is stored in"),
    ("freed twice", (*STORED, Free(1), Free(1)), "frees slot 1 twice"),
    ("stored too late", (*TO_4, row(4, 5), Commit("early", 1)), "early means 4 tokens; slot 1 holds 5"),
    ("stored too early", (*TO_4, Commit("late", 1)), "late means 6 tokens; slot 1 holds 4"),
    ("a gap", (*TO_4, row(5, 6)), "a row from 5 reads slot 1 with 4 tokens"),
    ("a token twice", (*TO_4, row(3, 4)), "a row from 3 reads slot 1 with 4 tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "said"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_step_that_breaks_a_rule_is_named_with_its_number(steps: tuple[Step, ...], said: str) -> None:
    done = run(*steps)
    last = len(steps) - 1
    assert list(done.by_step) == [last]
    assert done.by_step[last] == done.problems
    assert done.problems[0].startswith(f"step {last}: ")
    assert said in done.problems[0]


def test_a_slot_that_was_written_again_is_read_again() -> None:
    assert run(*TO_4, Free(1), *TO_4, row(4, 6)).problems == []


@pytest.mark.parametrize(
    ("snapshot", "held"),
    [
        (Snapshot(chunk=1, source=Source.POSITION, destination=3, conv_end=1), Content(TOKENS[:5], 5)),
        (Snapshot(chunk=2, source=Source.POSITION, destination=3, conv_end=1), Content(TOKENS[:6], 5)),
        (Snapshot(chunk=0, source=Source.FINAL, destination=3, conv_end=2), Content(TOKENS[:6], 6)),
        (Snapshot(chunk=0, source=Source.ACCUMULATOR, destination=3, conv_end=2), Content(TOKENS[:4], 6)),
    ],
    ids=["inside", "wrong conv end", "final", "start of the chunk"],
)
def test_a_snapshot_holds_what_its_source_gives(snapshot: Snapshot, held: Content) -> None:
    assert run(*TO_4, row(4, 6, snapshots=[snapshot])).slots[3] == held


def test_a_snapshot_into_a_stored_slot_is_refused_too() -> None:
    taken = Snapshot(chunk=1, source=Source.POSITION, destination=2, conv_end=1)
    assert "writes slot 2, which early is stored in" in run(*STORED, row(4, 6, snapshots=[taken])).problems[0]


def test_a_window_leaves_the_kept_tokens_of_its_path() -> None:
    done = run(*TO_4, window(0, Kept.all(2)))
    assert done.problems == []
    assert done.slots[1] == Content(TOKENS[:6], 6)
    assert [(label.step, label.slot, label.name, label.position) for label in done.labels] == [(2, 1, "r0@6.kept", 6)]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (Kept(1, 2, 2), "keeps 2 tokens of a window; slot 1 holds 1 with a conv window that ends at 6 and an attention "
                        "cache of 6 tokens"),
        (Kept(3, 2, 3), "keeps 2 tokens of a window; slot 1 holds 3 with a conv window that ends at 6"),
        (Kept(2, 3, 2), "keeps 2 tokens of a window; slot 1 holds 2 with a conv window that ends at 7"),
        (Kept(2, 2, 3), "slot 1 holds 2 with a conv window that ends at 6 and an attention cache of 7 tokens"),
    ],
    ids=["state too early", "rejected draft in the state", "conv window too late", "page of a rejected draft"],
)  # fmt: skip
def test_each_part_that_keeps_another_count_is_seen(kept: Kept, said: str) -> None:
    done = run(*TO_4, window(0, kept))
    assert said in done.problems[0]
    assert done.wrong_labels == 1


def test_a_ring_grows_is_folded_and_leaves_a_copy_too_short() -> None:
    grown = (*TO_4, window(0, Kept.all(2), Lag(0, 2)), window(1, Kept.all(2), Lag(2, 4)))
    assert run(*grown).problems == []
    assert run(*grown).slots[1] == Content(TOKENS[:8], 8, pending=4)
    folded = (*TO_4, window(0, Kept.all(2), Lag(0, 2)), window(1, Kept.all(2), Lag(2, 0)))
    assert run(*folded).problems == []
    assert run(*folded).slots[1] == Content(TOKENS[:8], 8)
    copied = run(*TO_4, window(0, Kept.all(2), Lag(0, 2)), Copy(CopyReason.FORK, "late", 1, 2))
    assert (
        "late means 6 tokens; slot 1 holds 6 with a conv window that ends at 6, of which 2 are in its ring alone"
        in (copied.problems[0])
    )
    assert copied.slots[2] == Content(TOKENS[:4], 6)


def test_a_ring_holds_as_many_tokens_as_it_has_and_not_one_more() -> None:
    grown = (*TO_4, window(0, Kept.all(2), Lag(0, 2)), window(1, Kept.all(2), Lag(2, 4)))
    assert run(*grown, ring=4).problems == []
    assert run(*grown, ring=3).problems == ["step 3: the ring of slot 1 has 3 tokens and is given 4"]


def test_a_row_that_forgets_its_ring_is_named() -> None:
    done = run(*TO_4, window(0, Kept.all(2), Lag(0, 2)), window(1, Kept.all(2), Lag(0, 2)))
    assert (
        "a row from 6 reads slot 1 with 6 tokens and a conv window that ends at 6, of which 2 are in its ring alone"
        in (done.problems[0])
    )
