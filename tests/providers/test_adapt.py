"""Packing, pools and decode loops, with stand-ins for the kernels: which slot, which chunk, which token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.providers import Capabilities, ModelKind, PoolResult, ProviderError
from replaycheck_kernels.providers.adapt import Packed, chunk_states, from_pool, pack, recorded, rounds
from replaycheck_kernels.providers.decode import Token, steps_before, token_by_token
from replaycheck_kernels.providers.interpreted import case, error
from replaycheck_kernels.recipe import EXACT, ORACLE, SGLANG, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH

ACCUMULATOR, STATE, FINAL = SnapshotSource.ACCUMULATOR, SnapshotSource.CHUNK_STATE, SnapshotSource.FINAL


def tap(sequence: int, chunk: int, source: SnapshotSource = ACCUMULATOR) -> SnapshotRow:
    return SnapshotRow(sequence, chunk, 0, source)


def kda(*lengths: int) -> tuple[KdaInputs, Tensor]:
    return case(ModelKind.KDA, lengths, 8, 12)


def test_packing_keeps_every_bit_and_no_memory() -> None:
    inputs, _ = kda(5, 3)
    x = pack(inputs, SGLANG)
    assert x.v.dtype == torch.bfloat16 and torch.equal(x.v[0].float(), inputs.v)
    x = pack(inputs, EXACT)
    assert x.v.data_ptr() != inputs.v.data_ptr()
    assert x.cu_seqlens.tolist() == [0, 5, 8]


def test_packing_gives_one_decay_a_head_without_its_axis() -> None:
    inputs, _ = case(ModelKind.GDN, [3], 8, 12)
    assert pack(inputs, SGLANG).a.shape == (1, 3, 2) and pack(inputs, SGLANG).dt_bias.shape == (2,)


def test_mixed_and_views_hold_the_same_values() -> None:
    x = pack(kda(4)[0], SGLANG)
    q, k, v = x.views()
    assert torch.equal(q, x.q) and torch.equal(k, x.k) and torch.equal(v, x.v)
    assert q.stride(1) == v.stride(1) == x.mixed().shape[1] == 2 * (8 + 8 + 12)


def test_float64_activations_are_refused() -> None:
    with pytest.raises(ProviderError, match="fp64 activations"):
        pack(kda(2)[0], ORACLE)


def test_chunk_states_are_counted_over_earlier_sequences() -> None:
    inputs, _ = kda(130, 64, 63)  # 3 + 1 + 1 chunks
    h = torch.arange(5.0).view(1, 5, 1, 1, 1)
    rows = [tap(0, 2, STATE), tap(1, 0, STATE), tap(2, 0, STATE), tap(0, 1)]
    found = chunk_states(h, inputs, rows)
    assert {row: float(state) for row, state in found.items()} == {rows[0]: 2, rows[1]: 3, rows[2]: 4}


def test_rounds_hold_one_accumulator_a_sequence() -> None:
    rows = [tap(0, 1), tap(1, 1), tap(0, 2), tap(0, 2, STATE), tap(0, 0, FINAL), tap(0, 1)]
    assert rounds(rows) == [[rows[0], rows[1], rows[3]], [rows[2]]]
    assert rounds([]) == [[]]


def by_our_recurrence(calls: list[int]) -> object:
    """An in-place call made of our recurrent kernel, which notes how often it ran."""

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        calls.append(len(rows))
        assert torch.isnan(pool[: slots[0]]).all()
        found = RECURRENT_TORCH(inputs, pool[list(slots)], rows, recipe)
        pool[list(slots)] = found.final
        return PoolResult(found.o, dict(zip(rows, found.snapshots, strict=True)))

    return call


@pytest.mark.parametrize(("most", "calls"), [(1, [1, 1]), (None, [2])])
def test_pool_call_becomes_the_contracts_function(most: int | None, calls: list[int]) -> None:
    (inputs, initial), made = kda(130, 20), []
    rows = [tap(0, 2), tap(1, 0, FINAL), tap(0, 1)]
    can = Capabilities((), snapshots_a_call=most, first_slot=1)
    found = from_pool(by_our_recurrence(made), can)(inputs, initial, rows, EXACT)  # type: ignore[arg-type]
    wanted = RECURRENT_TORCH(inputs, initial, rows, EXACT)
    assert made == calls
    assert torch.equal(found.o, wanted.o) and torch.equal(found.final, wanted.final)
    assert torch.equal(found.snapshots, wanted.snapshots)


def one_token(x: Packed, token: Token, pool: Tensor) -> None:
    """A decode kernel of our own: from a packed token to the next state, through the oracle."""
    heads, value, key = pool.shape[1:]
    q, k, v = token.mixed.float().split([heads * key, heads * key, heads * value], dim=1)
    for i, slot in enumerate(token.slots.tolist()):
        inputs = KdaInputs(
            q=q[i].view(1, heads, key),
            k=k[i].view(1, heads, key),
            v=v[i].view(1, heads, value),
            a=token.a[i].float().view(1, heads, key),
            b=token.b[i].float()[None],
            A_log=x.A_log,
            dt_bias=x.dt_bias.view(heads, key),
            offsets=(0, 1),
        )
        found = ORACLE_KERNEL(inputs, pool[slot][None], (), EXACT)
        pool[slot], token.out[i] = found.final[0].to(pool.dtype), found.o.to(token.out.dtype)


def test_decoding_token_by_token_is_the_recurrence() -> None:
    inputs, initial = kda(70, 3, 66)
    rows = [tap(0, 1), tap(2, 1), tap(1, 0), tap(2, 0, FINAL)]
    found = from_pool(token_by_token(one_token), Capabilities((), first_slot=1))(inputs, initial, rows, EXACT)
    truth = ORACLE_KERNEL(inputs, initial, rows, EXACT)
    # Only fp32 storage between tokens differs: 70 roundings of 2^-24 on states that decay.
    assert max(error(found.o, truth.o), error(found.final, truth.final)) < 70 * 2**-24
    assert error(found.snapshots, truth.snapshots) < 70 * 2**-24


def test_a_reduced_pool_rounds_each_token() -> None:
    inputs, initial = kda(20)
    pool = initial.to(torch.bfloat16)
    token_by_token(one_token)(inputs, pool, [0], [], EXACT)
    truth = ORACLE_KERNEL(inputs, initial, (), EXACT).final
    # One rounding has an rms of 1.66e-3; twenty decaying ones together have more than that one alone.
    assert error(pool, truth) > 1.66e-3


def test_steps_before_a_snapshot_count_in_its_sequence() -> None:
    inputs, _ = kda(130, 70)
    assert steps_before(inputs, [tap(0, 2), tap(1, 1), tap(1, 0)], EXACT) == [128, 64, 0]


def test_recorded_taps_and_restores() -> None:
    import math

    original = math.sqrt
    with recorded(math, "sqrt", True) as seen:
        assert math.sqrt(9) == 3
    assert seen == [3.0] and math.sqrt is original
    with recorded(math, "sqrt", False) as seen:
        math.sqrt(4)
    assert seen == []
