"""Write docs/codes/: one page a finding code, and an index, from the one table. ``python -m replaycheck.diagnose.pages``."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Final

from replaycheck.files import write_atomically

from .codes import CODES, lookup, page

__all__ = ["pages", "write_pages"]

FAMILIES: Final = {
    "RC1": "Numeric",
    "RC2": "Position",
    "RC3": "Ownership",
    "RC4": "Speculation",
    "RC5": "Activation and layout",
    "RC6": "Parallel and batch",
    "RC9": "Evidence",
}
WIDTH: Final = 120
"""Letters a line of prose."""


def pages() -> dict[str, str]:
    """File name to text."""
    return {"README.md": _index(), **{f"{code}.md": _page(code) for code in CODES}}


def _page(code: str) -> str:
    general = lookup(code).refines
    more = f"\nA more special name for [{general}]({general}.md): {lookup(general).title}.\n" if general else ""
    return _wrapped(page(code)) + more


def _wrapped(text: str) -> str:
    paragraphs = text.split("\n\n")
    filled = [
        each if each.startswith("#") else textwrap.fill(each, WIDTH, break_on_hyphens=False) for each in paragraphs
    ]
    return "\n\n".join(filled).rstrip("\n") + "\n"


def _index() -> str:
    lines = ["# Finding codes", ""]
    lines += [
        "Written from one table; `replaycheck explain CODE` prints the same. A code never gets another meaning.",
        "",
    ]
    for start, title in FAMILIES.items():
        lines += [f"## {title}", ""]
        lines += [f"* [{code}]({code}.md) {entry.title}" for code, entry in CODES.items() if code.startswith(start)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def write_pages(folder: Path) -> None:
    """Write every page; one of a code that is gone is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    found = pages()
    for name, text in found.items():
        write_atomically(folder / name, text.encode())
    for path in folder.glob("RC*.md"):
        if path.name not in found:
            path.unlink()


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/codes"))
