"""``trace import`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SAID = (("user", "Hi."), ("assistant", "Hello."), ("user", ""))
CHAT = {"messages": [{"role": role, "content": content} for role, content in SAID]}


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps(CHAT) + "\n", encoding="utf-8")
    return path


def test_it_says_the_format_what_was_dropped_and_what_was_written(
    replaycheck: Callable, chat: Path, tmp_path: Path
) -> None:
    outcome = replaycheck("trace", "import", "auto", chat, "--out", tmp_path / "x.jsonl")
    assert outcome.code == 0
    assert f"{chat}: openai (every record has 'messages' in OpenAI's form)" in outcome.err
    assert "dropped 1: empty message that leads to no answer" in outcome.err
    assert outcome.out == f"{tmp_path / 'x.jsonl'}: 1 groups, 1 traces, 2 turns, 1 requests, 14 tokens\n"
    assert replaycheck("trace", "validate", tmp_path / "x.jsonl").code == 0
    assert "Hello." in replaycheck("trace", "show", tmp_path / "x.jsonl").out


def test_json_is_one_object_with_counts_by_reason(replaycheck: Callable, chat: Path, tmp_path: Path) -> None:
    outcome = replaycheck("trace", "import", "auto", chat, "--out", tmp_path / "x.jsonl", "--json", "--max-tokens", 10)
    found = json.loads(outcome.out)
    assert (found["groups"], found["files"][0]["format"]) == (1, "openai")
    assert found["tokens"] <= 10
    assert found["dropped"] == {"empty message that leads to no answer": 1}
    assert found["drift"] == {"turns": 2, "drifted": 0}
    assert outcome.err == ""


def test_a_fault_is_exit_2_and_leaves_nothing(replaycheck: Callable, chat: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    chat.write_text(chat.read_text(encoding="utf-8") + '{"messages": 7}\n', encoding="utf-8")
    outcome = replaycheck("trace", "import", "openai", chat, "--out", out)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{chat}:2: messages: 7 isn't a list" in outcome.err
    assert list(tmp_path.iterdir()) == [chat]


def test_a_file_isnt_overwritten_by_its_import(replaycheck: Callable, chat: Path) -> None:
    outcome = replaycheck("trace", "import", "openai", chat, "--out", chat)
    assert outcome.code == 2 and "is one of the files to import" in outcome.err
    assert json.loads(chat.read_text(encoding="utf-8")) == CHAT


def test_hostile_names_and_reasons_are_printed_as_escapes(replaycheck: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    part = {"type": "\u202e\x1b[31m", "x": 1}
    asked = {"role": "user", "content": [part, {"type": "text", "text": "Hi."}]}
    path.write_text(json.dumps({"messages": [asked, {"role": "assistant", "content": "Ho."}]}), encoding="utf-8")
    outcome = replaycheck("trace", "import", "auto", path, "--out", tmp_path / "y.jsonl")
    assert r"content part without words: \u202e\x1b[31m" in outcome.err


@pytest.mark.parametrize(
    "options",
    [["--scale", "0"], ["--scale", "2"], ["--max-tokens", "3"], ["--max-traces", "0"], ["--tails", "x"], []],
    ids=str,
)
def test_wrong_options_are_usage_errors(options: list[str], replaycheck: Callable, chat: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "x.jsonl"] if options else []
    assert replaycheck("trace", "import", "auto", chat, *out, *options).code == 2
