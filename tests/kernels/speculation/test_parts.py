"""Windows, convolution windows, copies and the ring, against naive lists, with reused and null slots."""

from __future__ import annotations

import pytest
import torch

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.recipe import EXACT
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.speculation.conv_window import columns, put, read, roll_in
from replaycheck_kernels.speculation.copies import CopyPlan, copy_conv, copy_temporal
from replaycheck_kernels.speculation.ring import Ring, replay
from replaycheck_kernels.speculation.window import take, windows
from tests.kernels.cases import only, random_inputs, random_states

HISTORY, WIDTH, CHANNELS = 3, 4, 5


def inputs(*lengths: int, seed: int = 0) -> KdaInputs:
    return random_inputs(lengths, 16, 24, seed=seed)


def test_padding_is_nan_and_tokens_stay_in_order() -> None:
    x = inputs(3, 1)
    found = windows(x, WIDTH)
    assert found.rows == 2 and found.width == WIDTH and found.lengths.tolist() == [3, 1]
    rows = found.inputs.k.unflatten(0, (2, WIDTH))
    assert torch.equal(rows[0, :3], x.k[:3]) and torch.equal(rows[1, :1], x.k[3:])
    assert bool(rows[0, 3:].isnan().all()) and bool(rows[1, 1:].isnan().all())
    assert torch.equal(found.column(0).v, torch.stack([x.v[0], x.v[3]]))


def test_a_window_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="window of 5 tokens doesn't fit into 4"):
        windows(inputs(5), WIDTH)


@pytest.mark.parametrize("length", range(WIDTH + 1))
def test_a_rolled_in_window_ends_with_the_new_inputs(length: int) -> None:
    """Columns [h1 h2 | x0 x1 …]; the state after n tokens is the three columns from n − 1 on."""
    old = torch.arange(HISTORY * CHANNELS).view(1, HISTORY, CHANNELS).float()
    fresh = 100 + torch.arange(WIDTH * CHANNELS).view(1, WIDTH, CHANNELS).float()
    before = torch.full((1, columns(HISTORY, WIDTH), CHANNELS), -1.0)
    found = roll_in(old, fresh, torch.tensor([length]), before)
    line = torch.cat([old, fresh], 1)
    for kept in range(1, length + 1):
        assert torch.equal(
            read(found, torch.tensor([0]), torch.tensor([kept - 1]), HISTORY), line[:, kept : kept + HISTORY]
        )
    untouched = HISTORY - 1 + length if length else 0
    assert bool((found[:, untouched:] == -1).all())


def test_a_value_for_the_null_slot_goes_nowhere() -> None:
    pool = torch.full((4, 2), float("nan"), dtype=torch.bfloat16)
    put(pool, torch.tensor([2, 0, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert pool[2].tolist() == [1, 2] and bool(pool[[0, 1, 3]].isnan().all())


def test_a_cycle_of_copies_reads_before_it_writes() -> None:
    pool = torch.arange(4.0).view(1, 4, 1, 1, 1).clone()
    copy_temporal(
        pool, pool, CopyPlan(torch.tensor([1, 2, 3]), torch.tensor([2, 3, 1]), torch.zeros(3, dtype=torch.int64))
    )
    assert pool.flatten().tolist() == [0, 3, 1, 2]


@pytest.mark.parametrize("offset", range(WIDTH))
def test_a_window_moves_onto_itself_as_memmove_does(offset: int) -> None:
    """Report B27: overlapping source and destination."""
    conv = torch.arange(6.0).repeat(1, 2, 1).view(1, 2, 6, 1).clone()
    copy_conv(conv, conv, CopyPlan(torch.tensor([1]), torch.tensor([1]), torch.tensor([offset])), HISTORY)
    assert conv[0, 1, :HISTORY, 0].tolist() == [offset, offset + 1, offset + 2] and conv[0, 0, :, 0].tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


def test_pools_that_do_not_match_are_refused() -> None:
    plan = CopyPlan(*(torch.ones(1, dtype=torch.int64) for _ in range(3)))
    with pytest.raises(ValueError, match="can't be copied"):
        copy_temporal(torch.zeros(1, 2, 1, 2, 2), torch.zeros(1, 2, 1, 2, 2, dtype=torch.bfloat16), plan)
    with pytest.raises(ValueError, match="can't be copied"):
        copy_temporal(torch.zeros(1, 2, 1, 2, 2), torch.zeros(1, 2, 1, 3, 2), plan)


def test_a_ring_wraps_and_replays_in_order() -> None:
    """Capacity 5, pushes of 3, the oldest 2 or 3 folded into the checkpoint: windows wrap round the ring's end."""
    state, path = random_states(1, 16, 24), inputs(12, seed=4)
    ring, folded = Ring(5, 1, path), 0
    for begin, pops in ((0, 2), (3, 3), (6, 2), (9, 3)):
        ring.push(windows(take(path, torch.arange(begin, begin + 3), [3]), WIDTH), [3])
        checkpoint = RECURRENT_TORCH(only(path, 0, folded), state, (), EXACT).final if folded else state
        live = replay(ring, checkpoint, RECURRENT_TORCH, EXACT)
        assert torch.equal(live, RECURRENT_TORCH(only(path, 0, begin + 3), state, (), EXACT).final)
        ring.pop(0, pops)
        folded += pops
    assert ring.counts == [2]


def test_only_kept_tokens_enter_the_ring() -> None:
    x = inputs(4, 2, seed=5)
    ring = Ring(4, 2, x)
    ring.push(windows(x, WIDTH), [2, 0])
    state = random_states(2, 16, 24)
    found = replay(ring, state, RECURRENT_TORCH, EXACT)
    assert torch.equal(found[0], RECURRENT_TORCH(only(x, 0, 2), state[:1], (), EXACT).final[0])
    assert torch.equal(found[1], state[1])


def test_a_full_ring_refuses_what_would_overwrite() -> None:
    x = inputs(3)
    ring = Ring(4, 1, x)
    ring.push(windows(x, WIDTH), [3])
    with pytest.raises(ValueError, match="ring of 4 tokens holds 3 of request 0 and has no room for 2; fold"):
        ring.push(windows(x, WIDTH), [2])
