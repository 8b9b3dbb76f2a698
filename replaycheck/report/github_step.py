"""What a GitHub Actions step gets from a run: annotations in its log, and a summary on its page.

``publish`` is the one entry; nothing of it changes an exit code. A summary that can't be written costs a warning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from replaycheck.schema.result import GateResult

from .github import annotation_lines

__all__ = ["on_github", "publish", "repository"]

CAP = 2**20
"""Bytes of all summaries of a step; GitHub drops what a step wrote as soon as it is over."""


def on_github(asked: bool | None) -> bool:
    """``--github`` or ``--no-github`` as given; without them, whether this is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true" if asked is None else asked


def publish(
    asked: bool | None,
    gates: Sequence[GateResult],
    files: Mapping[str, Path],
    as_json: bool,
    summary: Path | None = None,
) -> None:
    """On GitHub, or where ``asked``: print annotations for ``gates``, and append ``summary`` to the step's page.

    ``files``: where gate files lie, by the name that results call them. ``summary``: a run's summary.md. With ``as_json``
    stdout holds one JSON object, so annotations go to stderr, where GitHub reads them as well.
    """
    if not on_github(asked):
        return
    stream = sys.stderr if as_json else sys.stdout
    for line in annotation_lines(gates, files, repository()):
        print(line, file=stream)
    stream.flush()
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary is not None and page:
        _append(Path(page), summary.read_bytes())


def repository() -> Path | None:
    """The checkout that a step works in: GITHUB_WORKSPACE, else the folder above that has a .git."""
    given = os.environ.get("GITHUB_WORKSPACE")
    if given:
        return Path(given)
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def _append(page: Path, data: bytes) -> None:
    try:
        with page.open("ab") as handle:
            if handle.tell() + len(data) > CAP:
                _warn(f"the step's summary has {handle.tell():,} bytes and may have {CAP:,}; this run's isn't added")
                return
            handle.write(data)
    except OSError as error:
        _warn(f"the step's summary {str(page)!r} can't be written ({error.strerror})")


def _warn(text: str) -> None:
    print(f"replaycheck: warning: {text}", file=sys.stderr)
