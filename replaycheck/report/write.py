"""Everything that is rendered from a finished run: report.html, summary.md and junit.xml."""

from __future__ import annotations

from pathlib import Path

from replaycheck.files import write_atomically

from .html import render
from .junit import junit_xml
from .saved import load
from .summary import summary_markdown

__all__ = ["write_all"]


def write_all(path: Path, show_text: bool = False, against: Path | None = None) -> Path:
    """Write the three files into the run directory ``path`` and return the path of report.html.

    ``show_text``: show tokens of imported traces, too. ``against``: a run with whose environment this one is compared.

    Raises :class:`replaycheck.errors.UsageError` if ``path`` isn't a finished run. Nothing is written unless everything
    could be rendered.
    """
    saved = load(path)
    texts = {
        "report.html": render(saved, show_text, None if against is None else load(against)),
        "summary.md": summary_markdown(saved.result, saved.environment),
        "junit.xml": junit_xml(saved.result, saved.environment),
    }
    for name, text in texts.items():
        write_atomically(path / name, text.encode("utf-8"))
    return path / "report.html"
