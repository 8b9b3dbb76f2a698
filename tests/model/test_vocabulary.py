"""Text and tokens correspond one to one, and text can't spell a special token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.traces import vocabulary


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_round_trips(text: str) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_each_seven_bit_byte_is_its_own_token() -> None:
    assert vocabulary.encode("".join(map(chr, range(128)))) == list(range(128))


def test_special_tokens_fill_the_rest_under_distinct_names() -> None:
    assert sorted(vocabulary.SPECIAL_NAMES) == list(range(vocabulary.TEXT_SIZE, vocabulary.SIZE))
    assert len(set(vocabulary.SPECIAL_NAMES.values())) == 16
    assert vocabulary.SPECIAL_NAMES[143] == "<|reserved-7|>"


@pytest.mark.parametrize("name", vocabulary.SPECIAL_NAMES.values())
def test_text_that_spells_a_special_token_stays_text(name: str) -> None:
    assert max(vocabulary.turn_tokens("user", name)[1:-1]) < vocabulary.TEXT_SIZE


def test_a_turn_is_role_text_end() -> None:
    assert vocabulary.turn_tokens("tool", "42") == [133, 52, 50, 134]
    assert vocabulary.prompt_header("assistant") == [132]


def test_the_first_character_outside_ascii_is_named_with_its_position() -> None:
    with pytest.raises(UsageError, match=r"'é' \(U\+00E9\) at position 3 .*transliterate"):
        vocabulary.encode("cafés für")


@pytest.mark.parametrize("token", [-1, 144])
def test_a_foreign_id_is_refused(token: int) -> None:
    with pytest.raises(UsageError, match=f"token {token} at position 1"):
        vocabulary.decode([65, token])


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="role 'robot' is not known; allowed are 'system', 'user'"):
        vocabulary.turn_tokens("robot", "")


@pytest.mark.parametrize(
    ("text", "ascii_text"),
    [
        ("“quoted” – it’s…", '"quoted" - it\'s...'),
        ("naïve café, Ångström", "naive cafe, Angstrom"),
        ("Straße → œuvre", "Strasse -> oeuvre"),
        ("½ ﬁne", "1/2 fine"),
        ("日本\tok\n", "??\tok\n"),
    ],
)
def test_transliteration(text: str, ascii_text: str) -> None:
    assert vocabulary.transliterate(text) == ascii_text


@given(st.text())
def test_transliterated_text_can_be_encoded_and_stays_put(text: str) -> None:
    once = vocabulary.transliterate(text)
    vocabulary.encode(once)
    assert vocabulary.transliterate(once) == once
