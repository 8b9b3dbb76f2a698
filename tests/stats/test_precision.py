"""Floors of number formats: against numpy's spacing, against rounded values, and the bounds that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.errors import InternalError, UsageError
from replaycheck.stats.precision import LogprobPrecision, detect, refusal

LOGPROB = -np.random.default_rng(0).exponential(3, 400)


def bf16(values: np.ndarray) -> np.ndarray:
    return np.asarray((values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32), np.float64)


@pytest.mark.parametrize(("kind", "dtype"), [("fp64", np.float64), ("fp32", np.float32), ("fp16", np.float16)])
@pytest.mark.parametrize("size", [0.3, 1.0, 2.0, 10.0, 20.0])
def test_a_step_is_numpys_spacing(kind: str, dtype: type[np.floating], size: float) -> None:
    assert LogprobPrecision(kind).step(size) == float(np.spacing(dtype(size)))  # type: ignore[arg-type]


def test_a_step_of_bf16_is_two_to_the_16_of_fp32() -> None:
    assert LogprobPrecision("bf16").step(10) == 2**16 * LogprobPrecision("fp32").step(10)


@pytest.mark.parametrize(("size", "floor"), [(2, 2.8e-14), (10, 4.5e-13), (20, 1.8e-12)])
def test_one_step_of_fp32_in_k3(size: float, floor: float) -> None:
    """The numbers of docs/statistics.md. k3 = expm1(x) - x is x² / 2 to 1e-7 of it at such x."""
    assert LogprobPrecision("fp32").k3_floor(size) == pytest.approx(floor, rel=0.02)


def test_four_decimals_of_one_side_cost_4e_10_on_average() -> None:
    precision = LogprobPrecision("decimals", 4)
    x = np.round(LOGPROB, 4) - LOGPROB
    # The mean of 400 has a standard error of 4.7 %.
    assert np.mean(np.expm1(x) - x) == pytest.approx(precision.k3_mean_floor(sides=1), rel=3 * 0.047)
    assert precision.k3_mean_floor(sides=1) == pytest.approx(1e-8 / 12 / 2)  # the variance of a step of 1e-4, halved
    assert precision.k3_mean_floor() == 2 * precision.k3_mean_floor(sides=1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (LOGPROB, "fp64"),
        (LOGPROB.astype(np.float32).astype(float), "fp32"),
        (LOGPROB.astype(np.float16).astype(float), "fp16"),
        (bf16(LOGPROB), "bf16"),
        (np.round(LOGPROB, 4), "4 decimals"),
        (np.round(LOGPROB, 2), "2 decimals"),
        (np.round(LOGPROB, 4).astype(np.float32).astype(float), "4 decimals"),
        (np.append(np.round(LOGPROB, 3), [-np.inf, np.nan]), "3 decimals"),
        (np.round(LOGPROB, 10), "10 decimals"),
        (np.round(LOGPROB, 11), "fp64"),  # as good as float64
        ((np.round(LOGPROB % 1 - 2, 6)).astype(np.float32).astype(float), "6 decimals"),
        (2.0**20 + np.arange(100), "fp32"),  # its step is an eighth: whole numbers are one value in eight
        (np.array([]), "fp64"),
    ],
)
def test_the_precision_is_read_from_the_values(values: np.ndarray, said: str) -> None:
    assert str(detect(values)) == said


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("most", "said"), [(65_504.0, "fp16"), (65_504.5, "1 decimals"), (65_536.0, "bf16"), (1e39, "fp64")]
)
def test_values_that_a_format_cannot_hold_are_not_in_it(most: float, said: str) -> None:
    """65,504 is the most of fp16, and 1e39 is above all of fp32."""
    assert str(detect(np.array([-0.5, -most]))) == said


def test_two_rounded_values_differ_by_up_to_a_step_and_no_more() -> None:
    for precision, rounded in (
        (LogprobPrecision("decimals", 4), np.round(LOGPROB, 4)),
        (LogprobPrecision("bf16"), None),
    ):
        other = LOGPROB + 1e-12
        cut = bf16(LOGPROB) if rounded is None else rounded
        difference = np.abs(cut - (bf16(other) if rounded is None else np.round(other, 4)))
        assert difference.max() <= precision.dlogp_floor(float(np.abs(LOGPROB).max())) * (1 + 1e-9)


@pytest.mark.parametrize("metric", ["dlogp", "k3", "k3_mean"])
def test_a_bound_under_the_floor_is_refused_and_one_on_it_is_not(metric: str) -> None:
    precision = LogprobPrecision("decimals", 4)
    floor = {"dlogp": 1e-4, "k3": 5e-9, "k3_mean": 1e-8 / 12}[metric]
    assert refusal(floor * (1 + 1e-9), metric, precision) == ""  # type: ignore[arg-type]
    assert refusal(0.0, metric, precision) == ""  # type: ignore[arg-type]
    said = refusal(floor * (1 - 1e-9), metric, precision)  # type: ignore[arg-type]
    assert "log-probabilities in 4 decimals can't show less than" in said
    assert "at |log p| = 20;" in said


def test_the_floor_itself_is_a_bound_that_can_be_shown() -> None:
    precision = LogprobPrecision("bf16")
    assert refusal(precision.dlogp_floor(), "dlogp", precision) == ""


@pytest.mark.parametrize("said", ["fp64", "fp32", "fp16", "bf16", "0 decimals", "4 decimals"])
def test_a_precision_is_read_back_as_it_was_written(said: str) -> None:
    assert str(LogprobPrecision.parse(said)) == said


@pytest.mark.parametrize("said", ["fp8", "", "4", "4 places", "four decimals", "decimals"])
def test_another_precision_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match=r"allowed are .*'fp64'.* and 'N decimals'"):
        LogprobPrecision.parse(said)


def test_at_a_size_of_0_nothing_is_rounded_but_decimals() -> None:
    assert LogprobPrecision("fp32").step(0) == 0
    assert LogprobPrecision("decimals", 3).step(0) == 1e-3


def test_only_decimals_have_decimals() -> None:
    with pytest.raises(InternalError, match="only 'decimals'"):
        LogprobPrecision("fp32", 4)
    with pytest.raises(InternalError, match="only 'decimals'"):
        LogprobPrecision("decimals")
