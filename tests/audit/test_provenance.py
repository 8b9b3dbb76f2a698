"""Provenance of bits against theory: bf16 is recognised, honest values are not, small arrays say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.audit.provenance import MIN_ELEMENTS, bf16_share, is_bf16_like
from replaycheck.compare.casts import cast
from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype

N = 200_000
STATE = np.random.default_rng(0).normal(size=N).astype(np.float32)


CHANCE = {PoolDtype.FP32: 2.0**-16, PoolDtype.FP16: 2.0**-3}
"""Share of honest values whose low 16 of 23, or low 3 of 10, mantissa bits are zero."""


@pytest.mark.parametrize("pool", [PoolDtype.FP32, PoolDtype.FP16])
def test_every_value_that_was_bf16_fits_bf16(pool: PoolDtype) -> None:
    assert bf16_share(cast(cast(STATE, PoolDtype.BF16), pool), pool) == 1.0


@pytest.mark.parametrize("pool", [PoolDtype.FP32, PoolDtype.FP16])
def test_honest_values_fit_bf16_as_often_as_chance_says(pool: PoolDtype) -> None:
    share = bf16_share(cast(STATE, pool), pool)
    expected = CHANCE[pool]
    # Six standard deviations of a binomial share: a false alarm in 1e9.
    assert abs(share - expected) <= 6 * np.sqrt(expected / N)


def test_fp16_values_are_judged_alike_before_and_after_the_upcast() -> None:
    half = STATE.astype(np.float16)
    assert bf16_share(half, PoolDtype.FP16) == bf16_share(half.astype(np.float32), PoolDtype.FP16)


def test_zeros_infinities_and_fp16_subnormals_say_nothing() -> None:
    silent = np.array([0.0, -0.0, np.inf, np.nan, 2.0**-20], dtype=np.float32)
    honest = cast(STATE[:MIN_ELEMENTS], PoolDtype.FP16)
    assert bf16_share(np.concatenate([honest, silent]), PoolDtype.FP16) == bf16_share(honest, PoolDtype.FP16)


def test_fewer_than_64_elements_give_no_share() -> None:
    assert np.isnan(bf16_share(STATE[: MIN_ELEMENTS - 1], PoolDtype.FP32))
    assert not np.isnan(bf16_share(STATE[:MIN_ELEMENTS], PoolDtype.FP32))


def test_only_a_full_share_in_a_pool_that_is_not_bf16_counts() -> None:
    assert is_bf16_like(1.0, declared_bf16=False)
    assert not is_bf16_like(0.999, declared_bf16=False)
    assert not is_bf16_like(1.0, declared_bf16=True)
    assert not is_bf16_like(float("nan"), declared_bf16=False)


def test_a_state_of_one_token_of_bf16_products_is_honest() -> None:
    """A rank-1 state has 16 significant bits: far more of it fits bf16 than 2^-16, and it still isn't rounded."""
    u, k = (cast(STATE[i : i + 64], PoolDtype.BF16) for i in (0, 64))
    share = bf16_share(np.outer(u, k), PoolDtype.FP32)
    assert CHANCE[PoolDtype.FP32] < share < 1.0
    assert not is_bf16_like(share, declared_bf16=False)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(InternalError, match="float64"):
        bf16_share(STATE.astype(np.float64), PoolDtype.FP32)
