"""Delta debugging on lists and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from replaycheck.diagnose.shrink.ddmin import fewest, least


@given(st.sets(st.integers(0, 30)), st.integers(1, 31))
def test_nothing_more_can_be_left_out_of_the_fewest(needed: set[int], count: int) -> None:
    parts = range(max(count, max(needed, default=0) + 1))
    assert fewest(parts, lambda kept: needed <= set(kept)) == sorted(needed)


def test_parts_that_go_together_only_stay_since_none_of_them_goes_alone() -> None:
    def fails(kept: Sequence[int]) -> bool:
        return (2 in kept) == (5 in kept) and 7 in kept

    assert fewest(range(10), fails) == [2, 5, 7]


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_least_number_of_a_threshold(threshold: int, above: int) -> None:
    assert least(threshold + above, lambda n: n >= threshold) == threshold


def test_a_number_that_fails_at_some_values_only_still_becomes_smaller() -> None:
    assert least(640, lambda n: n % 64 == 0 and n > 0) == 320
