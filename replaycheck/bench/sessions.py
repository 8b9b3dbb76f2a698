"""Trace files of any length for measurements of scale: sessions of one shape, made text, answers of a given length.

A line is written and forgotten, so a file of a million sessions takes no memory.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from replaycheck.files import atomic_file
from replaycheck.schema.trace import TRACE_SCHEMA
from replaycheck.traces.vocabulary import NAME, turn_tokens

__all__ = ["Shape", "group_of", "write_sessions"]

LETTERS = "etaoinshrdlu ,."


@dataclass(frozen=True)
class Shape:
    """turns: answers of a session. prompt: characters of each user turn. answer: scored tokens of each answer."""

    turns: int = 3
    prompt: int = 40
    answer: int = 12

    @property
    def scored(self) -> int:
        """Positions that a session scores under each arm."""
        return self.turns * self.answer


def write_sessions(path: Path, sessions: int, shape: Shape, seed: int = 0) -> None:
    """Write a trace file with one session a group."""
    with atomic_file(path) as handle:
        for index in range(sessions):
            line = json.dumps(group_of(index, shape, seed), separators=(",", ":"))
            handle.write(line.encode() + b"\n")


def group_of(index: int, shape: Shape, seed: int = 0) -> dict[str, object]:
    """A group of one session as plain JSON values; other indices and seeds have other text."""
    draws = random.Random(f"{seed}/{index}")
    name = f"s{index:07d}"
    turns, parent = [_turn("s", None, "system", "Be brief.")], "s"
    for number in range(1, shape.turns + 1):
        turns.append(_turn(f"u{number}", parent, "user", _text(draws, shape.prompt)))
        # The end token is scored, too.
        turns.append(_turn(f"a{number}", f"u{number}", "assistant", _text(draws, shape.answer - 1)))
        parent = f"a{number}"
    requests = [{"trace": name, "turn": f"a{number}"} for number in range(1, shape.turns + 1)]
    trace = {"id": name, "turns": turns}
    return {"schema": TRACE_SCHEMA, "group": name, "vocabulary": NAME, "traces": [trace], "requests": requests}


def _turn(name: str, parent: str | None, role: str, text: str) -> dict[str, object]:
    return {"id": name, "parent": parent, "role": role, "text": text, "tokens": turn_tokens(role, text)}


def _text(draws: random.Random, length: int) -> str:
    return "".join(draws.choices(LETTERS, k=length))
