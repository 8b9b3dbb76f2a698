"""What every page keeps: lines that fit, an end to every how-to, and no words of ours that a stranger can't look up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import ROOT, pages

PAGES = [*pages(), ROOT / "CHANGELOG.md"]
SAMPLES = sorted(
    path for path in (ROOT / "reports" / "samples").rglob("*") if path.suffix in (".html", ".json", ".toml")
)
HOW_TO = [*sorted((ROOT / "docs" / "howto").glob("*.md")), *sorted((ROOT / "docs" / "contributing").glob("*.md")),
          ROOT / "docs" / "servers.md"]  # fmt: skip


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> list[str]:
    """Lines outside of blocks of code and of tables."""
    text = re.sub(r"^(\s*)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [line for line in text.splitlines() if not line.lstrip().startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_of_prose_are_short(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > 125] == []


@pytest.mark.parametrize("page", HOW_TO, ids=name)
def test_a_how_to_says_what_one_should_see(page: Path) -> None:
    assert "should see" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_nothing_that_is_not_in_the_repository(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"DESIGN|domain/", text) == []


@pytest.mark.parametrize("sample", SAMPLES, ids=name)
def test_a_sample_names_no_folder_of_the_machine_that_made_it(sample: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:home|mnt|root|srv|tmp|work)/[\w./-]*", sample.read_text(encoding="utf-8")) == []


def test_links_between_pages_reach_a_heading() -> None:
    """MyST checks those of the site; README and CONTRIBUTING aren't part of it."""
    outside = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
    named = [
        link for page in outside for link in re.findall(r"\]\((docs/[^)#]+#[^)]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert named
    assert [link for link in named if link.partition("#")[2] not in headings(ROOT / link.partition("#")[0])] == []


def headings(page: Path) -> set[str]:
    lines = [line.lstrip("# ") for line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
