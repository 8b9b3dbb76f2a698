"""What a terminal shows of a group: every turn, and no character that could steer the terminal."""

from __future__ import annotations

import unicodedata
from typing import Any

from replaycheck.schema.trace import Group
from replaycheck.traces.describe import describe_group, group_record, totals
from replaycheck.traces.vocabulary import turn_tokens


def test_the_tree_shows_forks_places_and_branches(group: dict[str, Any]) -> None:
    lines = list(describe_group(Group.model_validate(group)))
    tree = [line.strip() for line in lines[2:8]]
    assert tree == [
        "s system  branch 0  1..12  Be brief.",
        "u1 user  branch 0  12..18  Why?",
        "├─a1 assistant  branch 0  18..28  Because.",
        "│ u2 user  branch 0  28..39  And then?",
        "│ a2 assistant  branch 0  39..41  (empty)",
        "└─a1b assistant  branch 1  18..28  Why not?",
    ]
    assert "2  t/a1b  branch 1  prompt 19 = 0·64 + 19  answer 9" in lines[-2]


def test_control_characters_are_escaped(group: dict[str, Any]) -> None:
    text = "\x1b]0;title\x07\x1b[2J\r\n\x00\x7f"
    group["traces"][0]["turns"][1] |= {"text": text, "tokens": turn_tokens("user", text)}
    lines = list(describe_group(Group.model_validate(group | {"archetype": "\u202eevil\x9b"})))
    assert all(unicodedata.category(char) not in {"Cc", "Cf"} for line in lines for char in line)
    assert r"\x1b]0;title\x07\x1b[2J\r\n\x00\x7f" in lines[3]


def test_sizes_add_up(group: dict[str, Any]) -> None:
    valid = Group.model_validate(group)
    sizes = totals([valid, valid])
    assert sizes == {
        "groups": 2, "traces": 2, "requests": 6, "tokens": 2 * 51, "prompt_tokens": 2 * (19 + 19 + 40),
        "answer_tokens": 2 * (9 + 9 + 1),
    }  # fmt: skip


def test_the_record_says_where_prompts_end(group: dict[str, Any]) -> None:
    record = group_record(Group.model_validate(group))
    requests = record["request_list"]
    assert isinstance(requests, list)
    assert requests[2] == {
        "trace": "t", "turn": "a2", "branch": 0, "turn_index": 1, "prompt": 40, "prompt_mod_chunk": 40, "end": 41
    }  # fmt: skip
