"""Which runs' reports show tokens: those whose traces are known to hold no text of other people.

The mark is in environment.json. A run without one, such as one that was interrupted before it got it, counts as private.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replaycheck.replay.store import Run, read_environment, write_json
from replaycheck.schema.environment import Environment, TextKind

__all__ = ["HIDDEN", "combined", "mark_text", "shows_text"]

#: What stands in place of a token.
HIDDEN = "hidden (--show-text)"


def mark_text(run: Run, kind: TextKind) -> None:
    """Write into a run's environment whether its traces hold text of other people."""
    write_json(run.environment, read_environment(run).model_copy(update={"text": kind}))


def combined(folders: Iterable[Path]) -> TextKind:
    """The mark of runs that are joined: public if all are."""
    return "public" if all(read_environment(Run(folder)).text == "public" for folder in folders) else "private"


def shows_text(environment: Environment, asked: bool) -> bool:
    """Whether a report may show tokens; ``asked``: the user gave --show-text."""
    return asked or environment.text == "public"
