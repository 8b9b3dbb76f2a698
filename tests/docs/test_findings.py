"""Each finding says where, what was measured and how to see it again, and stands in the table with all its columns."""

from __future__ import annotations

import re

import pytest

from .blocks import ROOT

PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
SECTIONS = {
    int(number): text for number, text in re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
ROWS = {
    int(number): [cell.strip() for cell in rest.split("|")]
    for number, rest in re.findall(r"^\| \[(\d+)\]\(#[\w-]+\) \|(.*)\|$", PAGE, re.MULTILINE)
}


def test_the_table_and_the_sections_are_the_same_findings() -> None:
    assert list(ROWS) == list(SECTIONS) == list(range(1, len(SECTIONS) + 1))


@pytest.mark.parametrize("number", ROWS)
def test_a_row_says_engine_day_size_evidence_and_whether_it_was_reported(number: int) -> None:
    finding, engine, day, size, evidence, reported = ROWS[number]
    assert finding and size and evidence
    assert re.search(r"\d+\.\d+", engine), "an engine has a version"
    assert re.fullmatch(r"(CPU|H200|CPU and H200), \d\d-\d\d", day)
    assert reported == "no" or reported.startswith("[")


@pytest.mark.parametrize("number", SECTIONS)
def test_a_section_says_where_and_how_to_see_it_again(number: int) -> None:
    text = SECTIONS[number]
    assert "**Where" in text
    assert "**Reproduction.**" in text
