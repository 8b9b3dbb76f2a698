"""Tokens without log-probabilities: never a pass, and a failure only beyond what running twice explains."""

from __future__ import annotations

from itertools import product

import pytest
from scipy.stats import binom

from replaycheck.gates.unsized import by_token_alone, most_by_chance
from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import Control, Measure
from replaycheck.schema.result import CellResult

N = 100


def cell(effect: Effect = Effect.STATE, flips: int = 0, n: int = N) -> CellResult:
    return CellResult.model_construct(
        name="c", effect=effect, reference="cold", candidate="warm", traces=8, positions=n, missing=n, unsized=n,
        unsized_flips=flips, bits_differ=0, not_finite=0, vacuous=False,
    )  # fmt: skip


def noise(flips: int, n: int = N) -> Measure:
    return Measure.model_construct(
        control=Control.REPEAT, reference="cold", candidate="again", positions=n, flips=flips, traces=8
    )


@pytest.mark.parametrize(
    ("effect", "flips", "floor", "decided"),
    [
        (Effect.STATE, 0, noise(0), "inconclusive"),
        (Effect.STATE, 0, None, "inconclusive"),
        (Effect.STATE, 4, noise(0), "inconclusive"),
        (Effect.STATE, 5, noise(0), "fail"),
        (Effect.EXACT, 5, noise(0), "fail"),
        (Effect.STATE, 5, noise(1), "inconclusive"),
        (Effect.STATE, 50, None, "inconclusive"),
        (Effect.TOTAL, 50, noise(0), "inconclusive"),
        (Effect.TOGETHER, 50, noise(0), "inconclusive"),
    ],
)
def test_what_decides(effect: Effect, flips: int, floor: Measure | None, decided: str) -> None:
    found = by_token_alone([cell(effect, flips)], floor, "cuts differ")
    assert found.decided == decided
    assert found.estimate.value == flips and found.estimate.n == N
    assert not found.vacuous


def test_cuts_are_blamed_only_where_they_differ() -> None:
    assert by_token_alone([cell(Effect.TOTAL, 1)], noise(0), "cuts differ").bound.derivation == "cuts differ"  # type: ignore[union-attr]
    assert "cold twice" in by_token_alone([cell(flips=1)], noise(0), "cuts differ").bound.derivation  # type: ignore[union-attr]


@pytest.mark.parametrize(("flips", "share"), list(product((0, 1, 3), (0.2, 0.5, 0.9))))
def test_the_bound_is_the_largest_count_with_a_chance_of_one_in_twenty(flips: int, share: float) -> None:
    """Against the sum of the distribution itself."""
    most = most_by_chance(flips, share)
    chances = [binom.sf(count - 1, count + flips, share) for count in (most, most + 1)]
    assert chances[0] >= 0.05 > chances[1]


def test_a_shorter_control_allows_more() -> None:
    assert most_by_chance(0, N / (N + 4 * N)) < most_by_chance(0, 0.5) < most_by_chance(0, 4 * N / (4 * N + N))
