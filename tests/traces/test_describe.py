"""What a terminal shows of a group: every turn, and no character that could steer the terminal."""

from __future__ import annotations

import unicodedata
from typing import Any

from replaycheck.schema.trace import Group
from replaycheck.traces.describe import group_record, totals
from replaycheck.traces.show import describe_group
from replaycheck.traces.vocabulary import turn_tokens


def test_the_tree_shows_forks_places_and_branches(group: dict[str, Any]) -> None:
    lines = list(describe_group(Group.model_validate(group)))
    tree = [line.strip() for line in lines[2:9]]
    assert tree == [
        "s system  branch 0  1..12  Be brief.",
        "u1 user  branch 0  12..18  Why?",
        "↳ goes on in more than one way",
        "├─a1 assistant  branch 0  18..28  prompt 19 = 0·64 + 19  Because.",
        "│ u2 user  branch 0  28..39  And then?",
        "│ a2 assistant  branch 0  39..41  prompt 40 = 0·64 + 40  (empty)",
        "└─a1b assistant  branch 1  18..28  prompt 19 = 0·64 + 19  Why not?",
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


def test_events_are_told_where_they_happen(group: dict[str, Any]) -> None:
    trace = group["traces"][0]
    window = {"kind": "speculation", "turn": "a1b", "drafts": [87, 104, 200 - 100], "accepted": 2}
    trace["events"] = [
        *({**window, "offset": offset} for offset in (0, 3)),
        {"kind": "fork", "turn": "a1b", "source": "a1", "offset": 0},
        {"kind": "rewind", "turn": "a1b", "to": "a1"},
        {"kind": "preemption", "turn": "a1", "after": 21, "resume": "swap"},
        {"kind": "batch", "turn": "a1", "mates": [f"m{i}" for i in range(14)]},
        {"kind": "offload", "turn": "a1"},
        {"kind": "aborted-load", "turn": "a1b"},
    ]
    group["requests"].append({"trace": "t", "turn": "a1"})
    text = "\n".join(describe_group(Group.model_validate(group)))
    for said in (
        "│   ↳ asked 2 times",
        "│   ↳ preempted after 21 tokens, swapped out and in",
        "in one batch with m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11 and 2 more",
        "its states move to the host afterwards",
        "    ↳ 2 windows, 4 of 6 drafts accepted: 2/3 2/3",
        "forks from a1 after 0 tokens",
        "the client went back to a1",
        "the load of its state from the host is aborted",
    ):
        assert said in text


def test_long_trees_are_shortened_unless_all_is_wanted(group: dict[str, Any]) -> None:
    trace = group["traces"][0]
    for number in range(100):
        trace["turns"].append(trace["turns"][5] | {"id": f"x{number}", "parent": trace["turns"][-1]["id"]})
        group["requests"].append({"trace": "t", "turn": f"x{number}"})
    valid = Group.model_validate(group)
    short, whole = list(describe_group(valid, 30)), list(describe_group(valid, None))
    assert sum("…  76 more turns; --all shows them" in line for line in short) == 1
    assert sum("…  73 more" in line for line in short) == 1
    assert len(short) < 70 < 200 < len(whole)
    assert short[-1] == whole[-1]
    assert not any("more turns" in line for line in whole)
