"""A trace for another vocabulary: words through a tokenizer with its drift, or ids folded into a range."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces import vocabulary
from replaycheck.traces.drift import boundary_drift, drifts, template_encode
from replaycheck.traces.revocabulary import SpecialTokens, fold, folded, tokenised

SPECIAL = SpecialTokens(bos=1000, roles={"system": 1001, "user": 1002, "assistant": 1003, "tool": 1004}, end=1005)


class Pairs:
    """A tokenizer that takes two characters at a time, so that an odd text and what follows are cut otherwise as a whole."""

    size = 100_000

    def encode(self, text: str, /) -> list[int]:
        pieces = [text[i : i + 2] for i in range(0, len(text), 2)]
        return [2000 + ord(piece[0]) * 128 + (ord(piece[1]) if len(piece) > 1 else 0) for piece in pieces]


@pytest.fixture
def small(group: dict[str, Any]) -> Group:
    speculation = {"kind": "speculation", "turn": "a1", "offset": 0, "drafts": [66, 101], "accepted": 1}
    group["traces"][0]["events"].append(speculation)
    return Group.model_validate(group)


def test_folding_keeps_lengths_events_and_equality(small: Group) -> None:
    made = folded(small, 100)
    turns = zip(small.traces[0].turns, made.group.traces[0].turns, strict=True)
    for before, after in turns:
        assert len(before.tokens) == len(after.tokens)
        assert all(0 <= token < 100 for token in after.tokens)
        assert after.text == before.text
    assert made.group.traces[0].events[1].drafts == (fold(66, 100), fold(101, 100))  # type: ignore[union-attr]
    assert made.text() == "token ids folded into folded-100: lengths and equality kept, words lost"
    assert made.bos == 1


@given(st.integers(0, vocabulary.SIZE - 1), st.integers(17, 5000))
def test_a_folded_id_is_in_the_range_and_special_ones_stay_apart(token: int, size: int) -> None:
    assert 0 <= fold(token, size) < size
    assert (fold(token, size) < 16) == (token >= vocabulary.TEXT_SIZE)


def test_a_range_without_room_for_text_is_refused(small: Group) -> None:
    with pytest.raises(UsageError, match="16 ids is too small; allowed: at least 17"):
        folded(small, 16)


def test_a_large_range_keeps_every_id_apart() -> None:
    assert len({fold(token, 144) for token in range(144)}) == 144


def test_text_goes_through_the_subjects_tokenizer_and_drift_is_counted(small: Group) -> None:
    made = tokenised(small, "pairs", Pairs(), SPECIAL)
    first = made.group.traces[0].turns[1]
    assert first.tokens == (1002, *Pairs().encode("Why?"), 1005)
    # "Be brief." has nine characters: what follows is cut otherwise as a whole. After "And then?" nothing follows.
    odd = {turn.id for turn in small.traces[0].turns if len(turn.text) % 2}
    expected = sum(turn.parent in odd and bool(turn.text) for turn in small.traces[0].turns)
    assert (made.boundaries, made.drifted) == (5, expected)
    assert made.dropped == {"speculation": 1}
    assert made.text() == f"text tokenised for pairs: {expected} of 5 turn ends drift, 1 speculation events dropped"


def test_an_id_outside_the_vocabulary_is_refused(small: Group) -> None:
    tokenizer = Pairs()
    tokenizer.size = 1500
    with pytest.raises(UsageError, match=r"turn 's': id \d+ is outside 'pairs', whose ids are 0 to 1499"):
        tokenised(small, "pairs", tokenizer, SPECIAL)


def test_boundaries_of_a_tokenizer_that_merges() -> None:
    assert list(boundary_drift(["ab", "c", "de"], Pairs().encode)) == [1]


@pytest.mark.parametrize(
    ("text", "drift"), [("a<b", False), ("<|end|>", True), ("<|end|", False), ("<|reserved-7|>", True)]
)
def test_a_turn_drifts_if_it_spells_a_special_token(text: str, drift: bool) -> None:
    assert drifts(vocabulary.turn_tokens("user", text)) is drift


@given(st.text(st.characters(max_codepoint=127)))
def test_text_without_special_names_is_tokenised_as_our_own(text: str) -> None:
    if "<|" not in text:
        assert template_encode(text) == vocabulary.encode(text)
