"""What can't be seen: the precision in which log-probabilities were reported puts a floor under every difference.

A bound under that floor judges the number format, not the engine, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import InternalError, UsageError, choices

__all__ = ["LARGE_LOGPROB", "LogprobPrecision", "detect", "refusal"]

Kind = Literal["fp64", "fp32", "fp16", "bf16", "decimals"]

_SIGNIFICAND = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8}  # bits with the leading one, IEEE 754 and bfloat16

LARGE_LOGPROB = 20.0
"""nat: |log p| at which floors are taken unless a run says its own; e^-20 is 2e-9, under most scored tokens' chance."""

_MOST_DECIMALS = 10
"""More are as good as float64: a step of 1e-10 puts a floor of 1e-20 under k3."""

_WIDER = 8
"""A number of the wider format falls on a decimal with a chance of at most 1 in 8; two dozen don't (8^-24 is 2e-22)."""


@dataclass(frozen=True)
class LogprobPrecision:
    """How a log-probability was rounded before we got it. ``decimals``: places after the point, for that kind only."""

    kind: Kind
    decimals: int | None = None

    def __post_init__(self) -> None:
        if (self.kind == "decimals") != (self.decimals is not None):
            raise InternalError(
                f"decimals are {self.decimals} for a precision of {self.kind!r}; only 'decimals' has them"
            )

    def __str__(self) -> str:
        return self.kind if self.decimals is None else f"{self.decimals} decimals"

    @classmethod
    def parse(cls, text: str) -> LogprobPrecision:
        """What ``str`` made.

        >>> LogprobPrecision.parse("4 decimals") == LogprobPrecision("decimals", 4)
        True
        """
        number, _, rest = text.partition(" ")
        if rest == "decimals" and number.isdecimal():
            return cls("decimals", int(number))
        if text not in _SIGNIFICAND:
            raise UsageError(f"unknown precision {text!r}; allowed are {choices(_SIGNIFICAND)} and 'N decimals'")
        return cls(cast(Kind, text))

    def step(self, size: float = LARGE_LOGPROB) -> float:
        """nat between neighbouring numbers at |log p| (or |logit|) = ``size``: one unit in the last place."""
        if self.decimals is not None:
            return float(10.0**-self.decimals)
        return float(2.0 ** (floor(log2(size)) - _SIGNIFICAND[self.kind] + 1)) if size > 0 else 0.0

    def dlogp_floor(self, size: float = LARGE_LOGPROB) -> float:
        """Smallest |dlogp| that isn't rounding alone: both sides may be off by half a step, towards each other."""
        return self.step(size)

    def k3_floor(self, size: float = LARGE_LOGPROB) -> float:
        """k3 of one step, expm1(x) - x = x² / 2: for a largest value.

        >>> f"{LogprobPrecision('fp32').k3_floor(10):.1e}"
        '4.5e-13'
        """
        return self.step(size) ** 2 / 2

    def k3_mean_floor(self, size: float = LARGE_LOGPROB, sides: int = 2) -> float:
        """Mean k3 of rounding alone: each of ``sides`` adds an error uniform over a step, of variance step² / 12.

        >>> f"{LogprobPrecision('decimals', 4).k3_mean_floor(sides=1):.0e}"
        '4e-10'
        """
        return sides * self.step(size) ** 2 / 24


def detect(logprob: NDArray[np.float64]) -> LogprobPrecision:
    """The coarsest precision that every finite value [n] has; fp64 where none fits or nothing was given.

    It needs dozens of values to mean anything: one value of 2 fits every precision. Decimals that were then stored as
    float32 are seen as long as their step is wider than ``_WIDER`` float32 steps.
    """
    values = logprob[np.isfinite(logprob)]
    with np.errstate(over="ignore"):  # 65,504 is the most of fp16; what is above becomes an infinity, which isn't equal
        single, half = values.astype(np.float32), values.astype(np.float16)
    is_single = bool((single == values).all())
    if not len(values):
        return LogprobPrecision("fp64")
    if is_single and not (single.view(np.uint32) & 0xFFFF).any():
        return LogprobPrecision("bf16")
    if is_single and (half == values).all():
        return LogprobPrecision("fp16")
    places = _decimals(values, is_single)
    if places is not None:
        return LogprobPrecision("decimals", places)
    return LogprobPrecision("fp32" if is_single else "fp64")


def _decimals(values: NDArray[np.float64], is_single: bool) -> int | None:
    """Places after the point that every value has; None if it isn't a few."""
    kind = np.float32 if is_single else np.float64
    step = LogprobPrecision("fp32" if is_single else "fp64").step(float(np.abs(values).max()))
    for places in range(_MOST_DECIMALS + 1):
        if 10.0**-places > _WIDER * step and (np.round(values, places).astype(kind) == values).all():
            return places
    return None


Unit = Literal["dlogp", "k3", "k3_mean"]


def refusal(bound: float, metric: Unit, precision: LogprobPrecision, size: float = LARGE_LOGPROB) -> str:
    """Why a ``bound`` lies under what ``precision`` can show; "" if it doesn't, or is 0, which isn't a bound on noise."""
    floors = {"dlogp": precision.dlogp_floor, "k3": precision.k3_floor, "k3_mean": precision.k3_mean_floor}
    smallest = floors[metric](size)
    if not 0 < bound < smallest:
        return ""
    return (
        f"a bound of {bound:.3g} on {metric} was given, but log-probabilities in {precision} can't show less than "
        f"{smallest:.2g} at |log p| = {size:g}; raise the bound, or record them with more digits"
    )
