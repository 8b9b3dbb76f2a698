"""Colours, sizes and the printed page: what is on the page can be read in both colour schemes, at any width and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_report_page import ESCAPED, OVERFLOW, WIDTHS, opened

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")

OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"

PAPER = 703
"""Pixels of A4 between margins of 12 mm."""

# Tables that paper would cut off.
WIDE = """paper => [...document.querySelectorAll('table')].filter(e => e.offsetWidth > paper).map(e =>
    e.closest('section').id + ': ' + e.offsetWidth)"""

# Of each drawing: its smallest text in pixels, and texts that stick out of it.
DRAWN = """() => [...document.querySelectorAll('figure svg')].map(svg => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll('text')];
    const inside = at => Math.min(at.left - box.left, box.right - at.right, at.top - box.top, box.bottom - at.bottom) > -1;
    return {
        smallest: Math.min(...texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale)),
        cut: texts.filter(text => !inside(text.getBoundingClientRect())).map(text => text.textContent),
        right: box.right,
    };
})"""


@pytest.mark.parametrize("name", ["passing", "failing"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Any, reports: dict[str, Path], name: str, dark: bool
) -> None:
    with opened(browser, reports[name], dark=dark) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_printed_it_is_dark_on_white_whatever_the_screen_is(browser: Any, reports: dict[str, Path], dark: bool) -> None:
    with opened(browser, reports["failing"], PAPER, dark=dark) as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_with_everything_open_the_page_still_fits(browser: Any, reports: dict[str, Path], width: int) -> None:
    with opened(browser, reports["failing"], width, dark=True) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate(OVERFLOW) == 0
        assert page.evaluate(ESCAPED) == []


def test_drawings_are_whole_and_legible_on_a_narrow_screen(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"], 420) as page:
        drawings = page.evaluate(DRAWN)
        assert len(drawings) >= 4
        assert all(drawing["smallest"] >= 11 for drawing in drawings)
        assert [drawing["cut"] for drawing in drawings if drawing["cut"]] == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_paper_shows_what_is_folded_and_no_tools(browser: Any, reports: dict[str, Path], scripts: bool) -> None:
    with opened(browser, reports["failing"], PAPER, scripts) as page:
        folded = page.locator("#findings details li").first
        assert not folded.is_visible()
        page.emulate_media(media="print")
        assert folded.bounding_box()["height"] > 0
        assert not page.locator("nav").is_visible()
        assert page.locator(".tools").locator("visible=true").count() == 0
        # Chromium doesn't draw a button again in the heading of a table's next page.
        assert set(
            page.evaluate("[...document.querySelectorAll('.sorter')].map(e => getComputedStyle(e).display)")
        ) <= {"contents"}
        assert all(drawing["right"] <= PAPER and not drawing["cut"] for drawing in page.evaluate(DRAWN))
        assert page.evaluate(WIDE, PAPER) == []


def test_after_printing_the_page_is_folded_as_before(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        folded = page.locator("details:not([open])")
        before = folded.count()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert folded.count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert folded.count() == before > 3
