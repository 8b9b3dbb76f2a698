"""docs/codes is what the table of codes gives."""

from __future__ import annotations

from pathlib import Path

from replaycheck.diagnose.codes import CODES
from replaycheck.diagnose.pages import pages, write_pages

DOCS = Path(__file__).parents[2] / "docs" / "codes"


def test_the_pages_in_the_repository_are_current() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in DOCS.iterdir()} == pages()


def test_there_is_a_page_a_code_and_an_index_that_names_each() -> None:
    found = pages()
    assert set(found) == {"README.md", *(f"{code}.md" for code in CODES)}
    assert all(f"[{code}]({code}.md)" in found["README.md"] for code in CODES)


def test_the_page_of_a_code_that_is_gone_goes(tmp_path: Path) -> None:
    (tmp_path / "RC999.md").write_text("old")
    write_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(pages())
