"""The double-rounding probe: passes for one cast, fails for two, and its theory holds on Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from replaycheck.compare.casts import cast as reference_cast
from replaycheck.faults.fault import find_fault
from replaycheck.probes.double_rounding import (
    MAX_ULPS,
    MEAN_ULPS,
    SHARE,
    VIA_BF16,
    VIA_FP16,
    distance,
    probe_double_rounding,
)
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.lab.pool import TORCH_DTYPE

STATES = np.random.default_rng(0).normal(size=(4, 2, 128, 128)).astype(np.float32)


def via_fp16(state: Tensor, dtype: torch.dtype) -> Tensor:
    return state.to(torch.float16).to(dtype)


def via_bf16_in_bulk(state: Tensor, dtype: torch.dtype) -> Tensor:
    """Right for single values."""
    return (state if state.numel() == 1 else state.to(torch.bfloat16)).to(dtype)


def toward_zero(state: Tensor, dtype: torch.dtype) -> Tensor:
    """Drops the bits that bf16 lacks; a direct cast for other targets."""
    cut = (state.view(torch.int32) & ~0xFFFF).view(torch.float32) if dtype is torch.bfloat16 else state
    return cut.to(dtype)


def test_the_lab_rounds_once() -> None:
    result = probe_double_rounding(STATES)
    assert result.verdict == "pass"
    assert result.values["mismatches"] == result.values["elements_wrong"] == result.values["probe_values_wrong"] == 0
    assert result.values["elements"] == STATES.size
    assert result.sentence.startswith("Stores round once: 2 of 2 probe values")


@pytest.mark.parametrize(
    ("store", "values_wrong"),
    [
        pytest.param(find_fault("via-bf16").cast, 1, id="via-bf16"),
        pytest.param(via_fp16, 1, id="via-fp16"),
        pytest.param(via_bf16_in_bulk, 0, id="via-bf16-in-bulk"),
        pytest.param(toward_zero, 1, id="toward-zero"),
    ],
)
def test_a_second_rounding_fails_by_its_probe_value_and_on_real_elements(store: object, values_wrong: int) -> None:
    result = probe_double_rounding(STATES, store)  # type: ignore[arg-type]
    assert result.verdict == "fail"
    assert result.values["probe_values_wrong"] == values_wrong
    assert result.values["elements_wrong"] > 0.05 * STATES.size
    assert "more than once" in result.sentence


@pytest.mark.parametrize(
    ("probe", "detour"), [(VIA_BF16, torch.bfloat16), (VIA_FP16, torch.float16)], ids=["via-bf16", "via-fp16"]
)
def test_a_probe_value_tells_one_cast_from_two(probe: tuple[PoolDtype, float, float], detour: torch.dtype) -> None:
    pool, given, direct = probe
    value = torch.tensor([given], dtype=torch.float64)
    assert float(value.float().double()) == given, "the value must be an fp32 number"
    assert float(value.float().to(TORCH_DTYPE[pool])) == direct
    assert float(value.float().to(detour).to(TORCH_DTYPE[pool])) == 1.0
    assert float(reference_cast(np.array([given], np.float32), pool)[0]) == direct


@pytest.mark.parametrize("scale", [1.0, 0.01, 37.0])
def test_seven_of_eight_fp16_values_move_by_two_units_in_the_mean(scale: float) -> None:
    found = distance(STATES * np.float32(scale))
    deviation = (SHARE * (1 - SHARE) / found.elements) ** 0.5
    # 65,536 × 2 normal elements; six standard deviations of the share, and of the mean of numbers from 0 to 4.
    assert found.elements > 0.97 * STATES.size
    assert abs(found.share - SHARE) < 6 * deviation + 1e-3
    assert abs(found.mean_ulps - MEAN_ULPS) < 6 * 1.25 / found.elements**0.5 + 5e-3
    assert found.max_ulps == MAX_ULPS


def test_values_that_are_bf16_already_do_not_move() -> None:
    found = distance(reference_cast(STATES, PoolDtype.BF16))
    assert (found.share, found.max_ulps) == (0.0, 0)


def test_states_against_the_theory_fail_the_probe() -> None:
    result = probe_double_rounding(reference_cast(STATES, PoolDtype.BF16))
    assert result.verdict == "fail", "real accumulators aren't bf16 numbers"
    assert result.values["elements_wrong"] == 0


def test_subnormal_fp16_and_overflow_are_not_counted() -> None:
    states = np.array([2.0**-15, -(2.0**-20), 1e6, np.inf, 0.0, 1.0], np.float32)
    assert distance(states).elements == 1
    assert distance(states[:5]).elements == 0


def test_a_fault_that_looks_at_heads_is_given_states_with_heads() -> None:
    """The documented example halves every second head; a cast is promised [..., V, K], probe values included."""
    result = probe_double_rounding(STATES, find_fault("examples.fault:FAULT").cast)  # type: ignore[arg-type]
    assert result.verdict == "fail"
    assert result.values["probe_values_wrong"] == 2
