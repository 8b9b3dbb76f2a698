"""Slots: poisoned until written, copied byte for byte, stored with one direct cast."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.lab.pool import TORCH_DTYPE, Pool, derive
from replaycheck.subjects.lab.state import SequenceState
from tests.lab.runs import some_state

DTYPES = pytest.mark.parametrize("dtype", TORCH_DTYPE.values(), ids=map(str, TORCH_DTYPE))


def pool(dtype: torch.dtype = torch.float32, rounding: torch.dtype | None = None, origin: str = "warm") -> Pool:
    return Pool(4, some_state(), dtype, torch.bfloat16, origin, rounding)


def raw_bytes(held: Pool, slot: int) -> list[bytes]:
    return [part.contiguous().view(torch.uint8).numpy().tobytes() for part in held.raw(slot)]


def test_slots_are_nan_until_something_is_stored() -> None:
    held = pool()
    held.store(2, some_state())
    assert all(part.isnan().all() for slot in (0, 1, 3) for part in held.raw(slot))
    assert not any(part.isnan().any() for part in held.raw(2))


def test_reading_a_slot_that_nothing_wrote_is_an_internal_error() -> None:
    held = pool()
    with pytest.raises(InternalError, match="slot 3 is read before anything was stored there"):
        held.load(3)
    held.copy(3, 1)
    with pytest.raises(InternalError, match="slot 1"):
        held.load(1)


def test_a_cleared_slot_is_the_state_of_no_tokens() -> None:
    held = pool()
    held.store(1, some_state())
    held.clear(1)
    state = held.load(1)
    assert not state.temporal.any()
    assert not state.conv.any()
    assert len(state.pages) == 0


@DTYPES
def test_a_store_is_one_direct_cast_and_keeps_the_conv_state(dtype: torch.dtype) -> None:
    held, state = pool(dtype), some_state()
    held.store(1, state)
    found = held.load(1)
    assert torch.equal(found.temporal, state.temporal.to(dtype).float())
    assert torch.equal(found.conv, state.conv)
    assert np.array_equal(found.pages, state.pages)
    assert found.temporal.dtype is torch.float32


@DTYPES
def test_registers_round_at_each_store_like_a_pool_of_that_dtype(dtype: torch.dtype) -> None:
    register, real, state = pool(torch.float32, rounding=dtype), pool(dtype), some_state()
    register.store(1, state)
    real.store(1, state)
    assert torch.equal(register.load(1).temporal, real.load(1).temporal)
    assert torch.equal(register.load(1).temporal, state.temporal) is (dtype is torch.float32)


@DTYPES
def test_a_copy_is_byte_exact_and_independent(dtype: torch.dtype) -> None:
    held = pool(dtype)
    held.store(1, some_state())
    held.raw(1)[0][0, 0, 0, 0] = float("nan")  # a payload that arithmetic wouldn't keep
    held.raw(1)[1][0, 0, 0] = -0.0
    before = raw_bytes(held, 1)
    held.copy(1, 2)
    assert raw_bytes(held, 2) == before
    held.store(1, some_state(seed=9))
    assert raw_bytes(held, 2) == before != raw_bytes(held, 1)


def test_a_store_writes_no_other_slot() -> None:
    held = pool()
    for slot in range(4):
        held.store(slot, some_state(seed=slot))
    before = [raw_bytes(held, slot) for slot in range(4)]
    held.store(2, some_state(seed=9))
    assert [raw_bytes(held, slot) == before[slot] for slot in range(4)] == [True, True, False, True]


def identity(held: Pool, state: SequenceState) -> bytes:
    held.store(1, state)
    return held.load(1).identity


def test_identities_tell_states_and_roundings_and_compilers_apart() -> None:
    one, two = some_state(identity=b"one"), some_state(identity=b"two")
    assert identity(pool(), one) == identity(pool(), one)
    different = [
        identity(pool(), one),
        identity(pool(), two),
        identity(pool(torch.bfloat16), one),
        identity(pool(torch.float32, rounding=torch.bfloat16), one),
    ]
    assert len(set(different)) == 4
    warm, split = pool(), pool(origin="split")
    warm.clear(1)
    split.clear(1)
    assert warm.load(1).identity != split.load(1).identity


def test_a_digest_depends_on_every_part_and_on_their_borders() -> None:
    made = {derive(b"a", (1, 2)), derive(b"a", (1,), 2), derive(b"a", (12,)), derive(b"b", (1, 2)), derive(b"a", 1, 2)}
    assert len(made) == 5


def test_every_pool_dtype_has_a_torch_dtype() -> None:
    assert set(TORCH_DTYPE) == set(PoolDtype)
