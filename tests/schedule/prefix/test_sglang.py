"""SGLang's strategies by hand: the worked table of prefill snapshots, the tree's granularity, the double buffer."""

from __future__ import annotations

import pytest

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.operations import Run, Store
from replaycheck.schedule.prefix.radix import RadixTree
from replaycheck.schedule.prefix.sglang import Track, prefill_track
from replaycheck.schedule.requests import plan_group, plan_requests
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Checkpoint, Clear, Compute, Copy, Written
from replaycheck.schema.arm import Compiler, Kernel
from replaycheck.schema.policy import SglangPolicy
from replaycheck.schema.trace import BatchMates
from replaycheck.state_probes.groups import chain, group, turn, with_events
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, arm_of
from replaycheck.state_probes.tables import EXTENDS, extend_plan

EXACT_ENDS = SglangPolicy(cache=NO_BUFFER)
GRIDS = SglangPolicy(cache=EXTRA_BUFFER, track_interval=64)


@pytest.mark.parametrize(("given", "wanted"), EXTENDS, ids=str)
def test_the_worked_table_of_prefill_snapshots(given: tuple[int, int, int, int | None], wanted: object) -> None:
    assert extend_plan(*given) == wanted


@pytest.mark.parametrize(("page", "extend"), [(1, 63), (128, 127), (16, 63)])
def test_an_extend_shorter_than_the_grid_is_not_tracked(page: int, extend: int) -> None:
    assert prefill_track(page, 0, extend) is None


@pytest.mark.parametrize("wanted", [64, 128, 192, 256, 320])
def test_a_branching_point_counts_inside_the_extend_only(wanted: int) -> None:
    track = prefill_track(1, 128, 130, wanted)
    assert track is not None
    # 256 is where the snapshot is anyhow; 64 and 128 are in the prefix, 320 is past the end.
    assert track.depth == (wanted if wanted in (192, 256) else 256)


def test_a_branching_point_lies_on_a_chunk_counted_from_the_extends_start() -> None:
    assert prefill_track(1, 100, 300, 228) == Track(228, 229)
    assert prefill_track(1, 100, 300, 192) == Track(356, 400)


def test_a_branching_point_at_the_end_is_the_final_state() -> None:
    """The backend is told 128 tokens, of which it takes the final state; 129 would ask for a chunk that isn't there."""
    assert prefill_track(1, 0, 128, 128) == Track(128, 128)


def test_snapshots_of_three_extends_in_one_pass_read_their_own_chunks() -> None:
    """Rows of 130, 100 and 63 tokens have 3, 2 and 1 chunks; per-chunk states 2 and 4 of the pass are read."""
    turns = []
    for name, size in (("p", 126), ("q", 96), ("r", 59)):
        turns += [turn(f"u{name}", None, "user", size), turn(name, f"u{name}", "assistant", 1)]
    mates = BatchMates(kind="batch", turn="p", mates=("q", "r"))
    schedule = compile_schedule(with_events(group(turns, ["p", "q", "r"]), mates), arm_of(Compiler.WARM, GRIDS))
    rows = next(step for step in schedule.steps if isinstance(step, Compute)).rows
    assert [row.b - row.a for row in rows] == [130, 100, 63]
    offset, read = 0, []
    for row in rows:
        read += [offset + snap.chunk for snap in row.snapshots]
        offset += -(-(row.b - row.a) // 64)
    assert read == [2, 4]


def test_a_split_leaves_the_state_with_the_lower_node_and_cuts_hits_back() -> None:
    tree, numbers = RadixTree(page=1), tuple(range(300))
    assert tree.insert(numbers, Checkpoint("deep", 0, 256, Written.FINAL))
    other = (*numbers[:101], *range(1000, 1200))
    found = tree.match(other, 250)
    assert (found.covered, found.state) == (100, None)
    assert tree.insert(other, Checkpoint("fork", 0, 100, Written.FINAL))
    assert tree.match(numbers, 299).state == Checkpoint("deep", 0, 256, Written.FINAL)
    assert tree.match(numbers, 255).state == Checkpoint("fork", 0, 100, Written.FINAL)
    assert not tree.insert(numbers, Checkpoint("again", 0, 256, Written.FINAL))


def test_a_leaf_that_loses_its_state_goes_with_the_stateless_nodes_above_it() -> None:
    tree, numbers = RadixTree(page=1), tuple(range(300))
    deep = Checkpoint("deep", 0, 256, Written.FINAL)
    tree.insert(numbers, deep)
    tree.match((*numbers[:101], 7777), 101)
    tree.remove(deep)
    assert tree.root.children == {}
    assert tree.match(numbers, 299).covered == 0


def test_nothing_is_stored_for_no_tokens_or_off_the_page() -> None:
    tree = RadixTree(page=16)
    assert not tree.insert(tuple(range(50)), Checkpoint("empty", 0, 0, Written.FINAL))
    assert not tree.insert(tuple(range(50)), Checkpoint("off", 0, 17, Written.FINAL))
    assert tree.root.children == {}


def test_keys_that_part_inside_a_page_share_the_pages_before_it() -> None:
    tree, numbers = RadixTree(page=16), tuple(range(100))
    tree.insert(numbers, Checkpoint("a", 0, 48, Written.FINAL))
    other = (*numbers[:41], *range(900, 960))
    assert tree.match(other, 95).covered == 32
    assert tree.insert(other, Checkpoint("b", 0, 48, Written.FINAL))
    assert [node.depth for node in tree.root.children.values()] == [32]


@pytest.mark.parametrize(("prompt", "hit"), [(64, 0), (65, 64), (128, 64), (129, 128), (256, 192)])
def test_a_resent_prompt_with_grids_hits_the_last_one_before_its_last_token(prompt: int, hit: int) -> None:
    once = chain(prompt - 4, 2)
    again = once.model_copy(update={"requests": once.requests * 2})
    plans = plan_requests(again, GRIDS)
    # The one snapshot of an extend that ends on the grid is its end, which the same prompt can't use.
    assert plans[1].start == (hit if prompt % 64 else 0)


def test_exact_ends_give_a_resent_prompt_nothing_and_a_longer_one_everything() -> None:
    once = chain(100, 5, 3, 2)
    again = once.model_copy(update={"requests": (*once.requests, once.requests[0])})
    plans = plan_requests(again, EXACT_ENDS)
    assert [plan.start for plan in plans] == [0, plans[0].computed_end, 0]
    assert [[c.position for c in plan.creates] for plan in plans] == [
        [plans[0].prompt, plans[0].computed_end],
        [plans[1].prompt, plans[1].computed_end],
        [],
    ]


def test_a_fork_asks_for_a_state_at_the_branching_point_and_the_next_one_hits_it() -> None:
    turns = [turn("y", None, "system", 200)]
    for name in ("p", "q", "r"):
        turns += [turn(f"u{name}", "y", "user", 150), turn(name, f"u{name}", "assistant", 3)]
    plans = plan_requests(group(turns, ["p", "q", "r"]), GRIDS)
    assert [plan.start for plan in plans] == [0, 0, 192]
    assert [[c.position for c in plan.creates] for plan in plans] == [[320], [192], [320]]


def test_each_piece_of_a_prompt_counts_from_its_own_start() -> None:
    plans = plan_requests(chain(300, 2), GRIDS.model_copy(update={"budget": 100}))
    assert [c.position for c in plans[0].creates] == [64, 164, 264]


def test_decode_snapshots_alternate_between_two_slots_and_the_last_is_stored() -> None:
    plain = chain(40, 170)
    plan = plan_group(plain, GRIDS)
    taken = [t for op in plan.operations if isinstance(op, Run) for span in op.spans for t in span.takes]
    assert [(t.checkpoint.position, t.buffer) for t in taken] == [(64, 0), (128, 1), (192, 0)]
    assert [op.stored.take.checkpoint.position for op in plan.operations if isinstance(op, Store)] == [192]
    schedule = compile_schedule(plain, arm_of(Compiler.WARM, GRIDS))
    slots = [step.destination for step in schedule.steps if isinstance(step, Copy)]
    assert slots[0] == slots[2] != slots[1]
    assert simulate(schedule).owners == {slots[0]: "r0@192"}


def test_with_unlike_kernels_the_track_that_stores_is_copied_and_the_other_is_not() -> None:
    """Two tracks decode the answer; each snapshot is one copy, of the second track's slot, which began second."""
    unlike = arm_of(Compiler.WARM, GRIDS, (Kernel.CHUNK, Kernel.RECURRENT))
    schedule = compile_schedule(chain(40, 170), unlike)
    clears = [step.slot for step in schedule.steps if isinstance(step, Clear)]
    copies = [(step.checkpoint, step.source) for step in schedule.steps if isinstance(step, Copy)]
    assert copies == [(name, clears[1]) for name in ("r0@64", "r0@128", "r0@192")]


def test_the_last_answer_token_is_never_in_a_state() -> None:
    """Its end lies on the track grid, one token after the last one that is run."""
    plan = plan_requests(chain(40, 83), GRIDS)[0]
    assert plan.end == 128 and plan.computed_end == 127
    assert [c.position for c in plan.creates] == [64]


def test_storing_a_state_again_makes_it_the_most_recent() -> None:
    """Two states a request and room for four: the resent first prompt hits nothing, but saves its states from eviction."""
    turns = []
    for name in ("p", "q", "r"):
        turns += [turn(f"u{name}", None, "user", 30), turn(name, f"u{name}", "assistant", 3)]
    plan = plan_group(group(turns, ["p", "q", "p", "r"]), EXACT_ENDS.model_copy(update={"capacity": 4}))
    evicted = [op.stored.evicts.request for op in plan.operations if isinstance(op, Store) and op.stored.evicts]
    assert evicted == [1, 1]
