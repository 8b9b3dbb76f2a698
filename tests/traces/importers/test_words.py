"""Made text: equal keys, equal text; asking for less gives a prefix; no key gives another's text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replaycheck.traces.importers.log import Log
from replaycheck.traces.importers.words import ALPHABET, joined, literal, made, made_text

KEYS = st.one_of(st.integers(), st.text(max_size=20))
LENGTHS = st.integers(0, 300)


@given(KEYS, KEYS, LENGTHS, LENGTHS)
def test_text_depends_on_the_key_alone_and_less_is_a_prefix(scope: object, name: object, long: int, short: int) -> None:
    whole = made(long, scope, name).first(long)
    assert len(whole) == long
    assert made(long, scope, name).first(min(long, short)) == whole[: min(long, short)]
    assert set(whole) <= set(ALPHABET)


@given(KEYS, KEYS, KEYS)
def test_other_keys_give_other_text(scope: object, one: object, other: object) -> None:
    same = made(64, scope, one).first(64) == made(64, scope, other).first(64)
    assert same == (str(one) == str(other))


@given(st.text(max_size=10), st.lists(st.integers(0, 400), min_size=3, max_size=3).map(sorted))
def test_parts_of_a_text_join(name: str, places: list[int]) -> None:
    a, b, c = places
    assert made_text(name, a, b) + made_text(name, b, c) == made_text(name, a, c)


def test_joined_words_are_cut_inside_any_part() -> None:
    log = Log()
    both = joined([literal("abc", log), literal("", log), literal("def", log)])
    assert [both.first(n) for n in (0, 2, 3, 4, 6)] == ["", "ab", "abc", "abcd", "abcdef"]
    assert both.private


def test_the_text_of_a_key_is_the_same_in_every_version() -> None:
    # A trace that was imported once must be the same when it is imported again.
    assert made(24, "scope", 7).first(24) == "ow mqsf deruxu cxitfi kg"


def test_words_outside_ascii_are_spelled_and_counted() -> None:
    log = Log()
    assert literal("“é”", log).first(9) == '"e"'
    assert sum(log.noted.values()) == 3
