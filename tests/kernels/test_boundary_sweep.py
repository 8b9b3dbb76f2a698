"""The dense sweep round the chunk grid, on states alone: every restore position P with every tail length d.

Warm: a prefill writes its final state into a pool slot, the slot is copied, the tail continues in the copy. Reference: the
fp32 accumulator, one cast, the tail from that. Checkpoints inside the prefill must equal the run that stops there.
"""

from __future__ import annotations

import pytest
import torch

from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel, run_on_slots
from replaycheck_kernels.recipe import SGLANG
from tests.kernels import cases

POSITIONS = (1, 2, 63, 64, 65, 127, 128, 129)
TAILS = (1, 2, 3, 4, 62, 63, 64, 65, 127, 128, 129)
POOLS = (torch.float32, torch.bfloat16, torch.float16)
KEY, VALUE = 32, 48
LONGEST = max(POSITIONS) + max(TAILS)


@pytest.fixture(scope="module")
def sequence() -> KdaInputs:
    return cases.random_inputs((LONGEST,), KEY, VALUE, recipe=SGLANG)


def cut(x: KdaInputs, begin: int, end: int) -> KdaInputs:
    part = slice(begin, end)
    return KdaInputs(
        x.q[part], x.k[part], x.v[part], x.a[part], x.b[part], x.A_log, x.dt_bias, (0, end - begin), (begin,)
    )


def bits(x: torch.Tensor) -> bytes:
    return bytes(x.contiguous().view(torch.uint8).numpy())


@pytest.mark.parametrize("kernel", [cases.FAST[0], cases.FAST[2]], ids=cases.name_of)
@pytest.mark.parametrize("dtype", POOLS, ids=str)
@pytest.mark.parametrize("at", POSITIONS)
def test_restoring_at_every_edge_continues_as_the_rounded_state_would(
    kernel: StateKernel, dtype: torch.dtype, at: int, sequence: KdaInputs
) -> None:
    zero = torch.zeros(1, cases.HEADS, VALUE, KEY)
    stored = kernel(cut(sequence, 0, at), zero, (), SGLANG).final.to(dtype)
    for tail in TAILS:
        pool = torch.full((4, cases.HEADS, VALUE, KEY), float("nan")).to(dtype)
        run_on_slots(kernel, cut(sequence, 0, at), pool, [-1], [1], (), SGLANG)
        pool[2] = pool[1]
        o = run_on_slots(kernel, cut(sequence, at, at + tail), pool, [2], [2], (), SGLANG)
        expected = kernel(cut(sequence, at, at + tail), stored.float(), (), SGLANG)
        assert bits(o) == bits(expected.o), tail
        assert bits(pool[2]) == bits(expected.final[0].to(dtype)), tail
        assert bits(pool[1]) == bits(stored[0]), "the checkpoint is only read"
        assert pool[[0, 3]].isnan().all(), "null and unused slots stay as they were"


@pytest.mark.parametrize("kernel", [cases.FAST[0], cases.FAST[2]], ids=cases.name_of)
@pytest.mark.parametrize("length", [65, 127, 128, 129, 192, 257])
def test_a_checkpoint_inside_an_extend_is_the_state_of_the_run_that_stops_there(
    kernel: StateKernel, length: int, sequence: KdaInputs
) -> None:
    zero = torch.zeros(1, cases.HEADS, VALUE, KEY)
    chunks = range(1, (length - 1) // 64 + 1)
    rows = [SnapshotRow(0, chunk, 0, SnapshotSource.ACCUMULATOR) for chunk in chunks]
    taken = kernel(cut(sequence, 0, length), zero, rows, SGLANG).snapshots
    for chunk, state in zip(chunks, taken, strict=True):
        stopped = kernel(cut(sequence, 0, 64 * chunk), zero, (), SGLANG).final[0]
        assert bits(state) == bits(stopped), chunk
