"""The command line against a server, in ``FOLDER/run``, and the record that it left there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from replaycheck.subjects.choose import find_subject
from tests.conftest import Outcome

Run = Callable[..., Outcome]


def settings(*values: str) -> tuple[str, ...]:
    """Words of the command line: an ``--subject-option`` for each."""
    return tuple(word for value in values for word in ("--subject-option", value))


def start(replaycheck: Run, subject: str, url: str, traces: Path, folder: Path, words: Iterable[object]) -> Outcome:
    """A subject that an earlier run of this process made isn't used again: its server may be gone."""
    find_subject.cache_clear()
    where = ("--url", url, "--traces", traces, "--out", folder / "run")
    return replaycheck("run", "--subject", subject, *where, *words)


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "result.json").read_text())
    return found
