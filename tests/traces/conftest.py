"""A small valid group as plain JSON values, to be broken in one place by each test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.traces.vocabulary import NAME, turn_tokens


def turn(id_: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    return {"id": id_, "parent": parent, "role": role, "text": text, "tokens": turn_tokens(role, text)}


@pytest.fixture
def group() -> dict[str, Any]:
    """A system turn, a question answered twice, and a follow-up of the first answer."""
    turns = [
        turn("s", None, "system", "Be brief."),
        turn("u1", "s", "user", "Why?"),
        turn("a1", "u1", "assistant", "Because."),
        turn("a1b", "u1", "assistant", "Why not?"),
        turn("u2", "a1", "user", "And then?"),
        turn("a2", "u2", "assistant", ""),
    ]
    requests = [{"trace": "t", "turn": each} for each in ("a1", "a1b", "a2")]
    return {
        "schema": "replaycheck.trace/1",
        "group": "g",
        "vocabulary": NAME,
        "traces": [{"id": "t", "turns": turns, "events": [{"kind": "branch", "turn": "u1"}]}],
        "requests": requests,
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """``write(*lines)``: a trace file of these lines; a line is bytes, text, or a value to be dumped as JSON."""

    def to_file(*lines: object) -> Path:
        path = tmp_path / "traces.jsonl"
        path.write_bytes(b"".join(_line(line) for line in lines))
        return path

    return to_file


def _line(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode("utf-8") + b"\n"


@pytest.fixture
def samples() -> Path:
    """The folder of real samples, where there is one."""
    folder = os.environ.get("REPLAYCHECK_SAMPLES")
    if not folder:
        pytest.skip("REPLAYCHECK_SAMPLES isn't set")
    return Path(folder)
