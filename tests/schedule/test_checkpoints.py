"""Positions of checkpoints against the worked integer examples of SGLang's prefill snapshot, and round the edges."""

from __future__ import annotations

import pytest

from replaycheck.schedule.checkpoints import positions
from replaycheck.schedule.prefix.job import Piece
from replaycheck.schedule.rows import snapshot
from replaycheck.schedule.steps import Checkpoint, Part, RequestPlan, Source, Written
from replaycheck.schema.arm import CheckpointPolicy

GRID = CheckpointPolicy(every=64)
INTERIOR, INTERIOR_GRID = Written.INTERIOR, Written.INTERIOR_GRID
FINAL, FINAL_GRID, DECODE = Written.FINAL, Written.FINAL_GRID, Written.DECODE

# P tokens in the state, E tokens in the extend → depth D of the last checkpoint, its chunk, and its conv window's rows.
SGLANG = [
    pytest.param(0, 64, 64, 1, (61, 63), id="aligned"),
    pytest.param(0, 100, 64, 1, (61, 63), id="unaligned"),
    pytest.param(0, 128, 128, 2, (125, 127), id="two-chunks-aligned"),
    pytest.param(0, 130, 128, 2, (125, 127), id="two-chunks-unaligned"),
    pytest.param(64, 70, 128, 1, (61, 63), id="after-a-hit"),
    pytest.param(100, 130, 228, 2, (125, 127), id="off-the-absolute-grid"),
]


def plan(start: int, prompt: int, end: int) -> RequestPlan:
    restore = Checkpoint("before", 0, start, Written.DECODE) if start else None
    return RequestPlan("t", 0, 0, "t", tuple(range(end)), prompt, end, restore, ())


@pytest.mark.parametrize(("start", "extend", "depth", "chunk", "conv_rows"), SGLANG)
def test_the_last_checkpoint_of_an_extend_is_where_sglang_puts_it(
    start: int, extend: int, depth: int, chunk: int, conv_rows: tuple[int, int]
) -> None:
    prompt = start + extend
    found = positions(GRID, start, prompt, prompt + 10)
    position, written = found[-1]
    assert position == depth == start + extend // 64 * 64
    made = snapshot(Piece(start, prompt, Part.TAIL), Checkpoint("c", 0, position, written), destination=7)
    assert made.chunk == chunk == extend // 64
    assert (made.conv_end - 3, made.conv_end - 1) == conv_rows
    assert made.destination == 7
    assert made.source is (Source.FINAL if extend % 64 == 0 else Source.ACCUMULATOR)


def test_an_extend_shorter_than_the_grid_stores_nothing() -> None:
    assert positions(GRID, 0, 63, 70) == []
    assert positions(GRID, 64, 127, 140) == []


@pytest.mark.parametrize(
    ("policy", "span", "expected"),
    [
        pytest.param(GRID, (0, 200, 210), [(64, INTERIOR), (128, INTERIOR), (192, INTERIOR)], id="every-multiple"),
        pytest.param(
            GRID, (10, 202, 210), [(74, INTERIOR_GRID), (138, INTERIOR_GRID), (202, FINAL_GRID)], id="ends-on-the-grid"
        ),
        pytest.param(
            CheckpointPolicy(every=128), (0, 192, 200), [(128, INTERIOR_GRID)], id="every-second-chunk-of-three"
        ),
        pytest.param(CheckpointPolicy(prompt_end=True), (5, 70, 80), [(70, FINAL)], id="prompt-end"),
        pytest.param(CheckpointPolicy(prompt_end=True), (6, 70, 80), [(70, FINAL_GRID)], id="prompt-end-on-the-grid"),
        pytest.param(CheckpointPolicy(turn_end=True), (0, 70, 80), [(79, DECODE)], id="turn-end-after-decoding"),
        pytest.param(CheckpointPolicy(turn_end=True), (0, 70, 71), [(70, FINAL)], id="turn-end-of-an-empty-answer"),
        pytest.param(
            CheckpointPolicy(every=64, prompt_end=True, turn_end=True),
            (0, 64, 65),
            [(64, FINAL_GRID)],
            id="all-at-one-position",
        ),
        pytest.param(
            CheckpointPolicy(every=64, prompt_end=True, turn_end=True),
            (0, 70, 80),
            [(64, INTERIOR), (70, FINAL), (79, DECODE)],
            id="all-apart",
        ),
    ],
)
def test_a_policy_stores_each_position_once_and_says_how_it_was_written(
    policy: CheckpointPolicy, span: tuple[int, int, int], expected: list[tuple[int, Written]]
) -> None:
    assert positions(policy, *span) == expected
