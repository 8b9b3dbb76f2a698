"""Tokens computed again, states and bytes, counted by hand."""

from __future__ import annotations

from pathlib import Path

from replaycheck.assets import model_dir
from replaycheck.schema.arm import CheckpointPolicy, PoolDtype
from replaycheck.state_probes.groups import chain, group, turn
from replaycheck.sweep.cost import Cost, cost, state_bytes

# A turn is its letters, a role token and an end token; a path begins with bos.
TWO_TURNS = chain(150, 9, 30, 4)
PROMPT, SECOND = 154, 154 + 9 + 1 + 32 + 1


def test_a_second_turn_computes_again_what_lies_after_the_last_checkpoint() -> None:
    # All but the last token of the first answer was computed: 154 + 9 tokens are known, 128 of them stored.
    found = cost([TWO_TURNS], CheckpointPolicy(every=64))
    known = PROMPT + 10 - 1
    assert (found.prompts, found.repeated) == (PROMPT + SECOND, known)
    assert found.recomputed == known - 128
    assert found.states == 2 + (SECOND - 128) // 64


def test_without_a_hit_everything_known_is_computed_again() -> None:
    found = cost([TWO_TURNS], CheckpointPolicy(every=512))
    assert found.recomputed == found.repeated > 0
    assert found.states == 0


def test_a_resent_prompt_repeats_all_but_its_last_token() -> None:
    again = chain(100, 3)
    again = again.model_copy(update={"requests": again.requests * 2})
    found = cost([again], CheckpointPolicy(prompt_end=True))
    assert found == Cost(prompts=208, repeated=103, recomputed=103, states=1)


def test_traces_share_nothing_and_branches_their_stem() -> None:
    turns = [turn("y", None, "system", 130)]
    for name in ("p", "q"):
        turns += [turn(f"u{name}", "y", "user", 20), turn(name, f"u{name}", "assistant", 2)]
    one = group(turns, ["p", "q"])
    other = one.model_copy(update={"group": "h"})
    found = cost([one, other], CheckpointPolicy(every=64))
    stem = 1 + 132 + 1 + 1  # bos, the system turn, the next role token, and the first letter of both questions
    assert found.repeated == 2 * stem
    assert found.recomputed == 2 * (stem - 128)


def test_bytes_of_a_state_follow_the_pool() -> None:
    model = model_dir(None)
    temporal, conv = 6 * 2 * 128 * 128, 6 * 3 * 3 * 2 * 128 * 2
    assert state_bytes(Path(model), PoolDtype.FP32) == 4 * temporal + conv
    assert state_bytes(Path(model), PoolDtype.BF16) == state_bytes(Path(model), PoolDtype.FP16) == 2 * temporal + conv
