"""Code blocks of a Markdown page with their tag: a comment before them, ``<!-- run: yes -->``, or a word after the language.

run: yes     run in a temporary folder
run: long, gpu, server   parsed without running: too slow here, or something is missing here
output       what the block before it printed: each of its lines must be there
file: PATH   the whole of a file of the repository
shown: WHY   neither code nor compared, for that reason
nothing      what a parser knows (toml, json, yaml) or Sphinx builds; any other block without a tag is a mistake
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PARSED", "ROOT", "TAGS", "Block", "Line", "blocks", "command_lines", "pages"]

ROOT = Path(__file__).resolve().parents[2]
TAGS = ("yes", "long", "gpu", "server", "output", "file", "shown")
#: Languages of blocks that need no tag.
PARSED = ("toml", "json", "yaml", "{toctree}", "{eval-rst}")

_TAG = re.compile(r"^<!-- (?:run: (.*)|(output|(?:file|shown): .+)) -->$")
_FENCE = re.compile(r"^(\s*)(`{3,})([^\s`]*)(?: (\w+))?\s*$")
#: What ends the arguments of a command in a shell line.
_ENDS = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "&"}


@dataclass(frozen=True)
class Block:
    """``line`` is that of its first line of text, 1-based; ``exits`` what its last command must exit with.

    ``about`` is the path of a file that is shown, or why a block is only shown.
    """

    page: Path
    line: int
    language: str
    text: str
    tag: str = ""
    exits: int = 0
    about: str = ""

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Line:
    """A command line: the words of one command of a block, the program first."""

    block: Block
    number: int
    words: tuple[str, ...]

    @property
    def where(self) -> str:
        return f"{self.block.page.name}:{self.number}"


def pages() -> list[Path]:
    """README and CONTRIBUTING, and every page of the documentation but those written from the table of codes."""
    docs = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "codes"]
    return [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *docs]


def blocks(page: Path) -> Iterator[Block]:
    """Fenced blocks in order. Raises ValueError for a tag that isn't one, since it would be passed over in silence."""
    lines = page.read_text(encoding="utf-8").splitlines()
    tag, at = "", 0
    while at < len(lines):
        if found := _TAG.match(lines[at].strip()):
            tag = found[1] or found[2]
        elif fence := _FENCE.match(lines[at]):
            end = _end(page, lines, at, fence[2])
            text = "\n".join(line[len(fence[1]) :] for line in lines[at + 1 : end])
            yield _block(page, at + 2, fence[3], text, tag or fence[4] or "")
            tag, at = "", end
        elif lines[at].startswith("    replaycheck "):
            yield _block(page, at + 1, "", lines[at].strip(), tag)
        elif lines[at].strip():
            tag = ""
        at += 1


def _end(page: Path, lines: list[str], begin: int, fence: str) -> int:
    for at in range(begin + 1, len(lines)):
        if lines[at].strip() == fence:
            return at
    raise ValueError(f"{page.name}:{begin + 1}: a code block begins here and doesn't end")


def _block(page: Path, line: int, language: str, text: str, tag: str) -> Block:
    tag, _, about = tag.partition(": ")
    name, _, exits = tag.partition(", exits ")
    if tag and name not in TAGS:
        raise ValueError(f"{page.name}:{line}: tag {tag!r} isn't one of {', '.join(TAGS)}")
    return Block(page, line, language, text, name, int(exits or 0), about)


def command_lines(block: Block) -> Iterator[Line]:
    """The lines of a block that begin with ``replaycheck`` or ``make``; one that ends with a backslash goes on."""
    number, held = block.line, ""
    for offset, text in enumerate(block.text.splitlines()):
        held = held or ""
        number = number if held else block.line + offset
        held += text.rstrip("\\").rstrip() + " " if text.rstrip().endswith("\\") else text
        if text.rstrip().endswith("\\"):
            continue
        yield from _commands(block, number, held)
        held = ""


def _commands(block: Block, number: int, text: str) -> Iterator[Line]:
    if not re.match(r"(\$ )?(\.venv/bin/)?(replaycheck|make) ", text.strip() + " "):
        return
    words = shlex.split(text.strip().removeprefix("$ ").removeprefix(".venv/bin/"), comments=True)
    ends = next((at for at, word in enumerate(words) if word in _ENDS), len(words))
    yield Line(block, number, tuple(words[:ends]))
