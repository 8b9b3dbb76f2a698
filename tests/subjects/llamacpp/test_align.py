"""Entries that the server drops leave gaps; an entry never lands at another token."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replaycheck.subjects.server.llamacpp.align import align

Entry = tuple[float, dict[int, float]]


def entry(at: int, token: int) -> Entry:
    """One that says where it belongs."""
    return -float(at), {token: -float(at)}


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_every_entry_that_is_given_is_the_tokens_own(said: list[tuple[int, bool]]) -> None:
    tokens = [token for token, _ in said]
    kept = [(token, entry(at, token)) for at, (token, there) in enumerate(said) if there]
    for at, found in enumerate(align(tokens, kept)):
        assert found is None or found == entry(at, tokens[at])


@given(st.lists(st.integers(0, 3), max_size=12))
def test_nothing_is_lost_when_nothing_was_dropped(tokens: list[int]) -> None:
    kept = [(token, entry(at, token)) for at, token in enumerate(tokens)]
    assert align(tokens, kept) == tuple(each for _, each in kept)


def test_three_tokens_of_which_one_ends_inside_a_character() -> None:
    # As measured: "c", a byte that begins a character, its second byte with the entry of the last id alone.
    assert align([5, 202, 57], [(5, entry(0, 5)), (57, entry(2, 57))]) == (entry(0, 5), None, entry(2, 57))
