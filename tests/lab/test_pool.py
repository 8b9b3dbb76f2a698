"""Slots: poisoned until written, copied byte for byte, stored with one direct cast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.lab.pool import TORCH_DTYPE, Pool, derive
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.compiled import turned
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
    assert torch.equal(found.temporal, state.temporal.to(dtype))
    assert torch.equal(found.conv, state.conv.to(torch.bfloat16))
    assert np.array_equal(found.pages, state.pages)
    assert found.temporal.dtype is dtype


@DTYPES
def test_registers_round_at_each_store_like_a_pool_of_that_dtype(dtype: torch.dtype) -> None:
    register, real, state = pool(torch.float32, rounding=dtype), pool(dtype), some_state()
    register.store(1, state)
    real.store(1, state)
    assert torch.equal(register.load(1).temporal, real.load(1).temporal.float())
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


def test_what_pools_store_of_one_state_is_made_once_and_a_copy_has_its_own_bytes() -> None:
    one, two, state = pool(torch.bfloat16), pool(torch.bfloat16), some_state()
    one.store(1, state)
    one.copy(1, 3)
    two.store(2, state)
    assert one.load(1).temporal is two.load(2).temporal
    assert torch.equal(one.load(3).temporal, one.load(1).temporal)
    assert one.load(3).temporal.data_ptr() != one.load(1).temporal.data_ptr()
    other = pool(torch.float16)
    other.store(1, state)
    assert torch.equal(other.load(1).temporal, state.temporal.half())


def test_the_same_tensors_under_another_name_are_another_state() -> None:
    one, two, state = pool(), pool(), some_state(identity=b"one")
    one.store(1, state)
    two.store(1, replace(state, identity=b"two"))
    assert one.load(1).identity != two.load(1).identity


def test_what_the_audit_sees_is_contiguous_whatever_the_layout() -> None:
    held, state = pool(), some_state()
    held.store(1, replace(state, temporal=turned(state.temporal)))
    assert held.raw(1)[0].is_contiguous()
    assert torch.equal(held.raw(1)[0], state.temporal)
    assert held.raw(1)[0] is held.raw(1)[0]


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


def with_ring(seed: int) -> SequenceState:
    """A state whose layers have two more tensors, one of integers."""
    draws = torch.Generator().manual_seed(seed)
    extra = {"ring": torch.randn(2, 4, 5, generator=draws), "cursor": torch.tensor([[seed], [seed + 1]])}
    return replace(some_state(seed), extra=extra)


def test_extra_tensors_of_the_layers_live_and_die_with_their_slot() -> None:
    """Stored in their own dtype, copied byte for byte, cleared to zero, poisoned when freed."""
    held = Pool(4, with_ring(0), torch.bfloat16, torch.bfloat16, "warm")
    held.store(1, with_ring(1))
    held.store(2, with_ring(2))
    held.copy(1, 3)
    for slot, seed in ((1, 1), (2, 2), (3, 1)):
        found = held.load(slot).extra
        assert found.keys() == {"ring", "cursor"}
        assert all(torch.equal(found[name], part) for name, part in with_ring(seed).extra.items())
    held.clear(2)
    assert not any(part.any() for part in held.load(2).extra.values())
    held.free(3)
    assert list(held.tensors(3)) == ["temporal", "conv", "ring", "cursor"]
    assert bool(held.tensors(3)["ring"].isnan().all())
    assert bool((held.tensors(3)["cursor"] == torch.iinfo(torch.int64).max).all())
    assert torch.equal(held.tensors(1)["cursor"], with_ring(1).extra["cursor"])
