"""One cast: probe values with known results, all bf16 numbers, ties, overflow."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.compare.casts import BF16_UNIT, cast
from replaycheck.schema.arm import PoolDtype


@pytest.mark.parametrize(
    ("value", "pool", "expected"),
    [
        (1 + 2**-11 + 2**-23, PoolDtype.FP16, 1 + 2**-10),  # via bf16 it would be 1
        (1 + 2**-8 + 2**-12, PoolDtype.BF16, 1 + 2**-7),  # via fp16 it would be 1
        (1 + 2**-8, PoolDtype.BF16, 1.0),  # a tie goes to even
        (1 + 3 * 2**-8, PoolDtype.BF16, 1 + 2**-6),
        (-1 - 2**-8 - 2**-20, PoolDtype.BF16, -1 - 2**-7),
        (3.4e38, PoolDtype.BF16, np.inf),
        (65520.0, PoolDtype.FP16, np.inf),
        (1 + 2**-23, PoolDtype.FP32, 1 + 2**-23),
    ],
)
def test_known_values(value: float, pool: PoolDtype, expected: float) -> None:
    assert cast(np.array([value], dtype=np.float32), pool)[0] == np.float32(expected)


def test_bf16_keeps_every_bf16_number() -> None:
    numbers = (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)
    kept = cast(numbers, PoolDtype.BF16)
    assert np.array_equal(kept.view(np.uint32)[~np.isnan(numbers)], numbers.view(np.uint32)[~np.isnan(numbers)])
    assert np.isnan(kept[np.isnan(numbers)]).all()


def test_bf16_error_is_within_the_unit_roundoff_and_reaches_it() -> None:
    values = np.random.default_rng(1).uniform(1, 2, 100_000).astype(np.float32)
    relative = np.abs(cast(values, PoolDtype.BF16) - values) / values
    assert 0.9 * BF16_UNIT < relative.max() <= BF16_UNIT
