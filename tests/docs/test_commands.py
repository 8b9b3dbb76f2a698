"""What README and docs tell a reader to type: it runs, or it could."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from .blocks import PARSED, ROOT, Block, blocks, command_lines, pages
from .commands import wrong, wrong_verbs

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in BLOCKS if block.tag == "yes"]
SHOWN = {before: block for before, block in pairwise(BLOCKS) if block.tag == "output"}


def name(item: Path | Block) -> str:
    return item.where if isinstance(item, Block) else str(item.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_could_be_run(page: Path) -> None:
    assert complaints(page) == []


def complaints(page: Path) -> list[str]:
    lines = [line for block in blocks(page) for line in command_lines(block)]
    said = [f"{line.where}: {sentence}" for line in lines for sentence in wrong(line)]
    return said + [f"{page.name}: {sentence}" for sentence in wrong_verbs(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("block", BLOCKS, ids=name)
def test_every_block_is_what_it_says(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.where, "exec")
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    elif block.language in ("", "sh") and block.tag in ("yes", "long", "gpu", "server"):
        done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    if block.tag == "file":
        assert block.text + "\n" == (ROOT / block.about).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_is_left_unchecked(page: Path) -> None:
    assert unchecked(page) == []


def unchecked(page: Path) -> list[str]:
    return [block.where for block in blocks(page) if not block.tag and block.language not in PARSED]


@pytest.fixture
def beside_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the commands of a page find what it names: docs and examples."""
    for folder in ("docs", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", list(dict.fromkeys(block.page for block in RUN)), ids=name)
@pytest.mark.usefixtures("beside_the_repository")
def test_blocks_that_are_tagged_run(page: Path, replaycheck: Callable) -> None:
    """In the order of the page and in one folder, as a reader does: a block may use what an earlier one wrote."""
    for block in (block for block in RUN if block.page == page):
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), {"__name__": "page"})
        else:
            typed(block, replaycheck)


def typed(block: Block, replaycheck: Callable) -> None:
    lines = list(command_lines(block))
    assert lines, f"{block.where}: nothing in it is a command"
    printed: list[str] = []
    for line in lines:
        outcome = replaycheck(*line.words[1:])
        assert outcome.code == (block.exits if line is lines[-1] else 0), f"{line.where}: {outcome.err}"
        printed += [text.rstrip() for text in outcome.out.splitlines()]
    shown = SHOWN[block].text.splitlines() if block in SHOWN else []
    stale = [text for text in shown if text.rstrip() not in [*printed, "..."]]
    assert stale == [], f"{block.where} shows what isn't printed any more; printed was\n" + "\n".join(printed)


def test_something_is_run_and_something_parsed() -> None:
    assert len(RUN) >= 10
    assert sum(1 for block in BLOCKS for _ in command_lines(block)) > 90


MISTAKES = {
    "an option": ("--kernels ", "--kernel-of ", "kernel-of"),
    "a verb": ("replaycheck run", "replaycheck rum", "rum"),
    "a file": ("examples.fault:FAULT", "examples.fault:FAULTY", "FAULTY"),
    "a preset": ("--preset kernel", "--preset kernels", "'kernels'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_page_is_seen(mistake: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shutil.copy(ROOT / "docs" / "howto" / "gate-a-kernel.md", page)
    assert complaints(page) == []
    right, spoilt, shown = MISTAKES[mistake]
    page.write_text(page.read_text(encoding="utf-8").replace(right, spoilt, 1), encoding="utf-8")
    assert any(shown in complaint for complaint in complaints(page))


def test_a_tag_that_is_none_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run: maybe -->\n```sh\nreplaycheck run\n```\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"page.md:3: tag 'maybe' isn't one of yes, long, gpu, server, output, file, shown"
    ):
        list(blocks(page))


def test_a_block_without_a_tag_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```toml\na = 1\n```\n```sh\nreplaycheck run\n```\n<!-- shown: a reason -->\n```\nx\n```\n", encoding="utf-8"
    )
    assert unchecked(page) == ["page.md:5"]


def links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http", "#", "mailto:")):
            yield link.partition("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_links_to_are_there(page: Path) -> None:
    assert [link for link in links(page) if not (page.parent / link).exists()] == []
