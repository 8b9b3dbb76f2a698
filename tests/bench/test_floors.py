"""The floors against tensors that are really there, and against products counted entry by entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replaycheck.bench.cases import Case, draw, one_snapshot_each
from replaycheck.bench.floors import CHUNK, Shape, call_bytes, chunk_flops, seconds
from replaycheck_kernels.providers.adapt import pack
from replaycheck_kernels.recipe import preset

UNEVEN = Case("uneven", "chunk", (70, 1, 129), heads=3, key=32, value=16)


@pytest.mark.parametrize("snapshots", [0, 3])
def test_bytes_are_those_of_the_packed_tensors_and_the_states(snapshots: int) -> None:
    inputs, initial = draw(UNEVEN, "cpu", 0)
    x = pack(inputs, preset("sglang"))
    read = [x.q, x.k, x.v, x.a, x.b]
    o = x.v
    states = 2 * initial.nbytes + snapshots * initial[0].nbytes
    assert call_bytes(UNEVEN.shape(snapshots)) == sum(each.nbytes for each in [*read, o]) + states


def test_bytes_of_grouped_heads_and_one_decay_a_head() -> None:
    shape = Shape(tokens=10, sequences=2, heads=2, value_heads=4, key=8, value=16, channels=1, state_bytes=2)
    q_and_k, v_and_o, decay_and_beta = 2 * 10 * 2 * 8, 2 * 10 * 4 * 16, 2 * 10 * 4
    assert call_bytes(shape) == 2 * (q_and_k + v_and_o + decay_and_beta) + 2 * 2 * (2 * 4 * 16 * 8)


def test_flops_are_those_of_the_lower_triangles_and_the_state_products() -> None:
    """Counted entry by entry, the diagonal too, which the formula leaves out: 1/64 of the triangles."""
    key, value = 128, 96
    pairs = sum(1 for i in range(CHUNK) for j in range(CHUNK) if j <= i)
    triangles = 2 * pairs * (3 * key + 2 * value)
    inverse = sum(2 * (i - j) for i in range(CHUNK) for j in range(i))
    states = 3 * 2 * CHUNK * key * value
    counted = 5 * (triangles + inverse + states)
    shape = Shape(tokens=CHUNK, sequences=1, heads=5, value_heads=5, key=key, value=value, channels=key)
    assert 0 < counted - chunk_flops(shape) < 5 * triangles / CHUNK + 0.001 * counted
    assert chunk_flops(replace(shape, tokens=3 * CHUNK)) == 3 * chunk_flops(shape)


def test_the_case_that_others_measured_has_floors_near_a_tenth_of_their_time() -> None:
    """T = 8,192, H = 32, K = V = 128 in bf16: 340 MB and 37 GFLOP; at 4.3 TB/s and 790 TFLOP/s 79 and 47 µs, in 2 digits."""
    shape = Case("8,192 tokens", "chunk", (8192,)).shape()
    assert seconds(call_bytes(shape), 4.3e12) == pytest.approx(79e-6, rel=0.01)
    assert seconds(chunk_flops(shape), 790e12) == pytest.approx(47e-6, rel=0.01)


def test_a_snapshot_of_each_sequence_lies_on_a_chunk_that_it_has() -> None:
    rows = one_snapshot_each(UNEVEN)
    assert [(row.sequence, row.chunk) for row in rows] == [(0, 0), (1, 0), (2, 1)]
