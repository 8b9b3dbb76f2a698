"""Every way in which a trace file can be wrong is named with its line, its field, what is allowed and what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.errors import UsageError
from replaycheck.traces import read
from replaycheck.traces.read import read_groups, scan

JSON = dict[str, Any]
Write = Callable[..., Path]


def test_a_valid_file_is_read_and_blank_lines_are_skipped(group: JSON, write: Write) -> None:
    other = group | {"group": "h"}
    groups = read_groups(write(group, "", other, "  "))
    assert [each.group for each in groups] == ["g", "h"]
    assert groups[0].traces[0].turns[1].text == "Why?"


def test_the_last_line_needs_no_newline(group: JSON, write: Write) -> None:
    path = write(group)
    path.write_bytes(path.read_bytes().rstrip())
    assert len(read_groups(path)) == 1


UNREADABLE: list[tuple[str, bytes, str]] = [
    ("empty file", b"", r":1: the file is empty"),
    ("blank file", b"\n\n \n", r":1: the file is empty"),
    ("cut off", b'{"schema": "replaycheck.trace/1", "gro', r":1: malformed JSON, EOF while parsing a string at column"),
    ("not JSON", b"hello\n", r":1: malformed JSON, expected value at column 1"),
    ("deep nesting", b"[" * 5000, r":1: malformed JSON, recursion limit"),
    ("not an object", b"[1, 2]\n", r":1: \[1, 2\] should be an object"),
    ("UTF-8 BOM", b"\xef\xbb\xbf{}\n", r":1: the file starts with a UTF-8 byte order mark; save it"),
    ("UTF-16", '{"a": 1}\n'.encode("utf-16"), r":1: the file starts with a UTF-16 byte order mark"),
    ("NUL", b'{"a\0": 1}\n', r":1: a NUL byte at column 4"),
    ("not UTF-8", b'{"a": "\xff"}\n', r":1: byte 0xff at column 8 isn't UTF-8"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in UNREADABLE], ids=[case[0] for case in UNREADABLE])
def test_a_file_that_is_no_trace_file(data: bytes, message: str, write: Write) -> None:
    path = write(data)
    with pytest.raises(UsageError, match=message) as caught:
        read_groups(path)
    assert str(caught.value).startswith(str(path))


def test_an_endless_line_is_refused_before_it_takes_the_memory(
    group: JSON, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_LINE", 100)
    with pytest.raises(UsageError, match=r":1: the line is longer than 100 bytes"):
        read_groups(write(group))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"):
        read_groups(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="Is a directory"):
        read_groups(tmp_path)


def turns(group: JSON) -> list[JSON]:
    found: list[JSON] = group["traces"][0]["turns"]
    return found


def set_turn(index: int, **values: object) -> Callable[[JSON], None]:
    return lambda group: turns(group)[index].update(values)


def add_event(**event: object) -> Callable[[JSON], None]:
    return lambda group: group["traces"][0]["events"].append(event)


def set_request(**values: object) -> Callable[[JSON], None]:
    return lambda group: group["requests"][1].update(values)


def repeat_turn(group: JSON) -> None:
    turns(group).append(copy.deepcopy(turns(group)[4]))


def repeat_trace(group: JSON) -> None:
    group["traces"].append(copy.deepcopy(group["traces"][0]))


def insert_token(token: int) -> Callable[[JSON], None]:
    return lambda group: turns(group)[1]["tokens"].insert(2, token)


WRONG: list[tuple[str, Callable[[JSON], Any], str]] = [
    ("schema of the future", lambda g: g.update(schema="replaycheck.trace/9"), r"schema: 'replaycheck.trace/9' isn't"),
    ("missing key", lambda g: g.pop("vocabulary"), r"vocabulary: is missing; see `replaycheck schema trace`"),
    ("unknown key", lambda g: g.update(colour="red"), r"colour: is no known key"),
    ("unknown vocabulary", lambda g: g.update(vocabulary="bpe"), r"vocabulary: 'bpe' is unknown; known: 'ascii-144'"),
    ("name with a path", lambda g: g.update(group="../g"), r"group: '\.\./g' doesn't match"),
    ("no requests", lambda g: g.update(requests=[]), r"requests: has 0 items, needs at least 1"),
    ("unknown role", set_turn(1, role="robot"), r"turns\[1\].role: 'robot' isn't allowed; allowed: 'system', 'user'"),
    ("token as text", set_turn(1, tokens=["7"]), r"turns\[1\].tokens\[0\]: '7' should be a valid integer"),
    ("unknown event", add_event(kind="nap", turn="a1"), r"events\[1\]: kind 'nap' is unknown; allowed: 'branch'"),
    ("event without kind", add_event(turn="a1"), r"events\[1\]: .* has no 'kind'"),
    ("event of no turn", add_event(kind="branch", turn="x"), r"events\[1\].turn: 'x' is no turn of trace 't'"),
    ("rewind to no turn", add_event(kind="rewind", turn="a1", to="x"), r"events\[1\].to: 'x' is no turn"),
    (
        "speculation on a question",
        add_event(kind="speculation", turn="u1", offset=0, drafts=[1], accepted=0),
        r"events\[1\].turn: 'u1' has role 'user'; a speculation event is about an answer",
    ),
    (
        "more accepted than drafted",
        add_event(kind="speculation", turn="a1", offset=0, drafts=[1], accepted=2),
        r"events\[1\].accepted: 2 of 1 drafts",
    ),
    (
        "window past the answer",
        add_event(kind="speculation", turn="a1", offset=9, drafts=[1], accepted=1),
        r"events\[1\].offset: 9 \+ 1 accepted is past the answer's 9 tokens",
    ),
    (
        "draft outside the vocabulary",
        add_event(kind="speculation", turn="a1", offset=0, drafts=[1, 144], accepted=1),
        r"events\[1\].drafts\[1\]: 144 is outside the vocabulary",
    ),
    ("unknown mate", add_event(kind="batch", turn="a1", mates=["u1"]), r"events\[1\].mates: 'u1' is no answer"),
    ("token outside", insert_token(144), r"turns\[1\].tokens\[2\]: 144 is outside the vocabulary 'ascii-144'"),
    ("negative token", insert_token(-1), r"turns\[1\].tokens\[2\]: -1 is outside the vocabulary"),
    ("other token", insert_token(65), r"turns\[1\].tokens\[2\]: is 65, but role and text give 104 .*encode the text"),
    ("other role", set_turn(1, role="tool"), r"turns\[1\].tokens\[0\]: is 131, but role and text give 133"),
    ("tokens cut", lambda g: turns(g)[1]["tokens"].pop(), r"turns\[1\].tokens\[5\]: is the end, but .* give 134"),
    ("tokens after END", lambda g: turns(g)[1]["tokens"].append(65), r"turns\[1\].tokens\[6\]: is 65, but .* the end"),
    ("text outside ASCII", set_turn(1, text="Wié?"), r"turns\[1\].text: character 'é' .*transliterate"),
    ("turn twice", repeat_turn, r"turns\[6\].id: 'u2' is the turn traces\[0\].turns\[4\], too"),
    ("trace twice", repeat_trace, r"traces\[1\].id: 't' is the trace traces\[0\], too"),
    ("unknown parent", set_turn(1, parent="x"), r"turns\[1\].parent: 'x' is no turn of this trace"),
    ("later parent", set_turn(1, parent="a1"), r"turns\[1\].parent: 'a1' comes later"),
    ("its own parent", set_turn(1, parent="u1"), r"turns\[1\].parent: 'u1' comes later"),
    ("answer to nothing", set_turn(2, parent=None), r"turns\[2\].parent: null, but an assistant turn answers one"),
    ("request of no trace", set_request(trace="x"), r"requests\[1\].trace: 'x' is no trace of this group"),
    ("request of no turn", set_request(turn="x"), r"requests\[1\].turn: 'x' is no turn of trace 't'; allowed: 'a1'"),
    ("request of a question", set_request(turn="u1"), r"requests\[1\].turn: 'u1' isn't an assistant turn"),
]


@pytest.mark.parametrize(("spoil", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_group_is_named_with_line_and_field(
    spoil: Callable[[JSON], Any], message: str, group: JSON, write: Write
) -> None:
    wrong = copy.deepcopy(group) | {"group": "wrong"}
    spoil(wrong)
    with pytest.raises(UsageError, match=r"traces\.jsonl:2: (traces\[0\]\.)?" + message):
        read_groups(write(group, wrong))


def test_a_group_that_is_named_twice(group: JSON, write: Write) -> None:
    with pytest.raises(UsageError, match=r":3: group: 'g' is on line 1, too"):
        read_groups(write(group, group | {"group": "h"}, group))


def test_scan_goes_on_after_a_bad_line_and_lists_every_problem(group: JSON, write: Write) -> None:
    wrong = copy.deepcopy(group) | {"group": "wrong"}
    set_turn(1, parent="x")(wrong)
    set_request(turn="x")(wrong)
    lines = list(scan(write("{", wrong, group)))
    assert [(line.number, len(line.problems)) for line in lines] == [(1, 1), (2, 2), (3, 0)]
