"""A child process answers, fails with its last words, or is ended when its time is up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from replaycheck.children import ask, environment


def test_a_child_answers_in_lines() -> None:
    ended = ask("json.tool", '{"a": 1}', 60, 60)
    assert ended.lines == ("{", '    "a": 1', "}")
    assert (ended.code, ended.hung) == (0, False)


def test_a_child_that_fails_gives_its_last_words_as_the_reason() -> None:
    ended = ask("json.tool", "{", 60, 60)
    assert ended.code == 1
    assert "line 1 column 2" in ended.reason


def test_what_a_library_prints_is_no_answer_and_a_hanging_child_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hangs.py").write_text(
        "import time\n"
        "from replaycheck.children import answering\n"
        "with answering() as out:\n"
        "    print('a line of a library', flush=True)\n"
        "    print('an answer', file=out, flush=True)\n"
        "    time.sleep(600)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    ended = ask("hangs", "", 5, 45)
    assert ended.lines == ("an answer",)
    assert ended.hung
    assert ended.reason == "no answer within 45 s"


def test_a_child_finds_the_packages_of_its_parent() -> None:
    assert environment(MORE="1")["PYTHONPATH"].split(":") == [path for path in sys.path if path]
    assert environment(MORE="1")["MORE"] == "1"
