"""What one arm did on several groups, joined."""

from __future__ import annotations

import numpy as np

from replaycheck.compare.record import ArmRecording, HitSeen, WrittenState, join
from tests import synthetic_run as syn

HIT = HitSeen("t", 0, 1, 20, 16, 16, "as expected")


def one(label: str, number: int, **kernels: str) -> ArmRecording:
    return ArmRecording(
        arm="arm",
        turns=syn.turns(warm=True)[number : number + 1],
        restores=syn.states(syn.PoolDtype.BF16, stored=True)[number : number + 1],
        written=(WrittenState(label, (0,), np.ones((1, 1)), declared_bf16=False),),
        kernels={part: frozenset({kernel}) for part, kernel in kernels.items()},
        expected_hits=number + 1,
        proven_hits=number,
        computed_tokens=10,
        label_mismatches=1,
        content_mismatches=2,
        hits=(HIT,) * number,
    )


def test_lists_are_joined_in_order_counts_added_and_kernels_united() -> None:
    first, second = one("a", 0, history="chunk"), one("b", 1, history="x", answer="recurrent")
    both = join([first, second])
    assert both.arm == "arm"
    assert both.turns == first.turns + second.turns
    assert both.restores == first.restores + second.restores
    assert [state.label for state in both.written] == ["a", "b"]
    assert both.kernels == {"history": {"chunk", "x"}, "answer": {"recurrent"}}
    counts = both.expected_hits, both.proven_hits, both.computed_tokens, both.label_mismatches, both.content_mismatches
    assert counts == (3, 1, 20, 2, 4)
    assert both.hits == (HIT,)


def test_one_recording_is_itself() -> None:
    alone = one("a", 1, tail="chunk")
    assert join([alone]) is alone
