"""A module of ours in a Python process of its own: what crashes, hangs or changes the whole process stays in there.

The parent sends text on stdin and reads lines of stdout (:func:`ask`); a child writes them to what :func:`answering` gives,
so that what a library prints isn't taken for one. Workers that take many jobs are in :mod:`replaycheck.processes`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

__all__ = ["Ended", "answering", "ask", "environment"]


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        lines: of its stdout. The last one may be half a line where it was killed.
        reason: the last line of its stderr; without one, its exit code; where it was killed, that it took too long.
        code: its exit code. hung: whether it was killed.
    """

    lines: tuple[str, ...]
    reason: str
    code: int
    hung: bool


def environment(**more: str) -> dict[str, str]:
    """Variables for a child that is to find the packages that this process has, and ``more``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def ask(module: str, sent: str, seconds: float, limit: float, **more: str) -> Ended:
    """Run ``python -m module`` on ``sent``; kill it after ``seconds``, which are what is left of ``limit``."""
    command, pipe = [sys.executable, "-W", "ignore", "-m", module], subprocess.PIPE
    hung = False
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(**more)) as child:
        try:
            out, err = child.communicate(sent, timeout=seconds)
            reason = (err.strip().splitlines() or [f"the process ended with code {child.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            reason, hung = f"no answer within {limit:g} s", True
    return Ended(tuple(out.splitlines()), reason, child.returncode, hung)


@contextmanager
def answering() -> Iterator[TextIO]:
    """In the child: where answers go. From here on, stdout is stderr for everything else in this process."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        yield out
