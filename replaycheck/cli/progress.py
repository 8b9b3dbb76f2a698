"""Progress of long work: one line a step on stderr, and into the run's log."""

from __future__ import annotations

import sys
from time import monotonic

import click

__all__ = ["Progress"]


class Progress:
    """Collects the lines it prints, so that they can be kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._started = monotonic()

    def __call__(self, line: str) -> None:
        """Print and keep a line with the seconds since the start."""
        stamped = f"[{monotonic() - self._started:5.1f} s] {line}"
        self.lines.append(stamped)
        click.echo(stamped, file=sys.stderr)
