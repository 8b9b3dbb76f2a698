"""The report in a real browser: it reads, sorts, filters and expands, asks the network for nothing, and fits any width."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1280, 420)

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

# Elements that stick out of the page and aren't inside something that scrolls.
ESCAPED = """() => [...document.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, svg, .tools, pre') && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    ).map(e => e.tagName + '.' + e.className).slice(0, 5)"""


@contextmanager
def opened(browser: Any, report: Path, width: int = 1280, scripts: bool = True, dark: bool = False) -> Iterator[Any]:
    """A page on file://; at its end it may have neither said anything on the console nor asked for anything."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=scripts, color_scheme="dark" if dark else "light"
    )
    page, said, asked = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    yield page
    context.close()
    assert said == []
    assert asked == [report.as_uri()]


@pytest.mark.parametrize("name", ["passing", "failing"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_the_page_fits_and_is_silent(
    browser: Any, reports: dict[str, Path], name: str, width: int, scripts: bool
) -> None:
    with opened(browser, reports[name], width, scripts) as page:
        assert page.locator(".banner .word").is_visible()
        assert page.locator("#matrix table.matrix").is_visible()
        assert page.locator("figure svg").count() >= 4
        assert page.locator(".tools").count() == (page.locator("table[data-name]").count() if scripts else 0)
        assert page.evaluate(OVERFLOW) == 0
        assert page.evaluate(ESCAPED) == []


def test_words_narrow_a_table_to_the_rows_that_have_them_all(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        rows = page.locator("#gates tbody tr")
        assert rows.count() == 3
        page.get_by_label("filter the rows of gates").fill("pass conv")
        assert rows.locator("visible=true").count() == 1
        assert page.locator("#gates [role=status]").inner_text() == "1 of 3 rows"
        page.get_by_label("filter the rows of gates").fill("")
        assert rows.locator("visible=true").count() == 3


def test_a_heading_sorts_its_column_by_number_and_back(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        heading = page.locator("#windows th", has_text="mean |Δ log p|")
        column = "[...document.querySelectorAll('[data-name=traces] tbody tr')].map(row => +row.cells[4].innerText)"
        heading.get_by_role("button").click()
        down = page.evaluate(column)
        assert down == sorted(down, reverse=True) and len(set(down)) > 1
        assert heading.get_attribute("aria-sort") == "descending"
        heading.get_by_role("button").click()
        assert page.evaluate(column) == down[::-1]


def test_expand_all_opens_every_part_and_closes_it(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        closed = page.locator("details:not([open])")
        assert closed.count() > 3
        page.locator("#expand").click()
        assert closed.count() == 0
        page.locator("#expand").click()
        assert page.locator("details[open]").count() == 0


def test_a_link_into_a_closed_part_opens_it(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        assert not page.locator("#findings details li").first.is_visible()
        page.evaluate("document.querySelector('#findings details li').id = 'inside'; location.hash = 'inside'")
        page.locator("#findings details li").first.wait_for(state="visible", timeout=5000)


def test_a_table_is_saved_as_csv_that_no_spreadsheet_runs(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        page.evaluate("document.querySelector('[data-name=traces] tbody td').textContent = '=1+1, \"x\"'")
        with page.expect_download() as waited:
            page.locator("#windows .tools button").click()
        lines = Path(waited.value.path()).read_text(encoding="utf-8").splitlines()
        assert waited.value.suggested_filename == "traces.csv"
        assert lines[0].startswith('"trace","positions","bits differ"')
        assert lines[1].startswith('"\'=1+1, ""x""",')


def test_the_data_of_the_page_can_be_saved(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        with page.expect_download() as waited:
            page.get_by_role("button", name="download the data (result.json)").click()
        assert waited.value.suggested_filename == "result.json"
        saved = Path(waited.value.path()).read_bytes()
        assert saved == (reports["failing"].parent / "result.json").read_bytes()


def test_without_scripts_the_page_says_where_the_data_are(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"], scripts=False) as page:
        assert str(reports["failing"].parent / "result.json") in page.locator("#download").inner_text()
        assert page.get_by_role("button").count() == 0


def test_hostile_names_are_text(browser: Any, reports: dict[str, Path]) -> None:
    with opened(browser, reports["failing"]) as page:
        assert page.title() != "owned"
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        assert "<script>document.title='owned'</script>" in page.locator("#divergences").inner_text()


def test_a_script_that_isnt_ours_is_refused(browser: Any, reports: dict[str, Path]) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(reports["passing"].as_uri())
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s); }"
    )
    assert page.evaluate("window.owned") is None
    refused = page.evaluate("fetch('https://example.invalid/').then(() => 'sent', error => String(error))")
    assert "Failed to fetch" in refused
    context.close()


def test_the_page_follows_the_readers_colour_scheme(browser: Any, reports: dict[str, Path]) -> None:
    def background(dark: bool) -> str:
        with opened(browser, reports["passing"], dark=dark) as page:
            return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert background(False) == "rgb(255, 255, 255)"
    assert background(True) == "rgb(20, 23, 27)"
