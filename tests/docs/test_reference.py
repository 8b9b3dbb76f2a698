"""The reference is whole: each metric, column, public name and exit code is there and says something."""

from __future__ import annotations

import importlib
import inspect
import re
import sys

import pytest

from replaycheck import assets
from replaycheck.diagnose.codes import CODES
from replaycheck.errors import ExitCode
from replaycheck.faults.shipped import FAULTS
from replaycheck.gates.metrics import METRICS
from replaycheck.probes.properties import PROPERTIES
from replaycheck.public import PUBLIC, Surface
from replaycheck.schema.arm import Effect
from replaycheck.schema.tables import MEANINGS, TABLES
from replaycheck.traces.importers.registry import BUILT_IN

from .blocks import ROOT


@pytest.fixture(scope="module")
def generated() -> object:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("generated")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def rows(text: str) -> dict[str, list[str]]:
    """Rows of Markdown tables by their first cell, without its backticks; an escaped bar is no border."""
    split = (re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| "))
    return {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in split}


def test_every_metric_has_a_row_with_meaning_and_unit() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    section = page.partition("## Metrics of gates")[2].partition("## Numbers of a cell")[0]
    there = {name: cells for name, cells in rows(section).items() if name not in ("metric", "---")}
    assert set(there) == set(METRICS)
    assert [name for name, cells in there.items() if not all(cells)] == []


@pytest.mark.parametrize("table", TABLES)
def test_every_column_says_what_it_is(table: str, generated: object) -> None:
    assert [name for name in TABLES[table].names if not MEANINGS[table].get(name)] == []


def test_every_exit_code_says_what_it_means(generated: object) -> None:
    there = rows(generated.exit_codes())
    assert [code.name for code in ExitCode if not there[str(int(code))][1]] == []


@pytest.mark.parametrize("surface", PUBLIC, ids=lambda surface: surface.module)
def test_public_names_exist_and_are_described(surface: Surface) -> None:
    module = importlib.import_module(surface.module)
    assert [name for name in surface.names if not inspect.getdoc(getattr(module, name))] == []
    exported = getattr(module, "__all__", surface.names)
    assert set(surface.names) <= set(exported)


def test_every_generated_part_is_asked_for_and_there(generated: object) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert set(re.findall(r"^<!-- generated: ([a-z-]+) -->$", pages, re.MULTILINE)) == set(generated.PARTS)
    assert all(len(part()) > 100 for part in generated.PARTS.values())


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_page_for_ci_has_every_exit_code() -> None:
    section = page("ci.md").partition("### Exit codes")[2].partition("###")[0]
    assert set(rows(section)) - {"code", "---:"} == {str(int(code)) for code in ExitCode}


def test_the_glossary_names_every_effect_and_is_in_order() -> None:
    words = rows(page("glossary.md"))
    assert [effect.value for effect in Effect if f"`{effect}`" not in words["effect"][0]] == []
    order = [word.replace(",", "").lower() for word in words if word not in ("word", "---")]
    assert order == sorted(order)


def test_every_code_is_in_the_index_and_has_a_page() -> None:
    index = page("codes/README.md")
    assert [code for code in CODES if f"[{code}]({code}.md)" not in index] == []
    assert sorted(path.stem for path in (ROOT / "docs" / "codes").glob("RC*.md")) == sorted(CODES)


def test_every_suite_that_ships_is_in_the_table() -> None:
    there = rows(page("traces.md"))
    assert [name for name in assets.trace_suites() if f"suite:{name}" not in there] == []


COUNTS = (
    (r"(\d+) formats", len(BUILT_IN) - 1),  # our own isn't one of them
    (r"(\d+) seeded faults", len(FAULTS)),
    (r"(seventeen) properties", "seventeen" if len(PROPERTIES) == 17 else "another number of"),
    (r"stable code \((\d+), a page each", len(CODES)),
    (r"and (\w+) suites of conversations", {7: "seven", 8: "eight"}[len(assets.trace_suites())]),
)


@pytest.mark.parametrize(("told", "count"), COUNTS, ids=[told for told, _ in COUNTS])
def test_numbers_of_things_are_right(told: str, count: object) -> None:
    paths = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    found = [number for path in paths for number in re.findall(told, path.read_text(encoding="utf-8"))]
    assert found
    assert set(found) == {str(count)}


def test_codes_that_a_page_names_exist() -> None:
    named = {code for path in (ROOT / "docs").rglob("*.md") for code in re.findall(r"RC\d{3}", path.read_text("utf-8"))}
    assert named - set(CODES) == set()


def architecture(section: str) -> dict[str, list[str]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return rows(page.partition(f"## {section}\n")[2].partition("\n## ")[0])


def test_every_package_is_in_the_house() -> None:
    named = " ".join(architecture("The house")).replace("`", "").replace(",", "").split()
    packages = [path.parent.name for path in (ROOT / "replaycheck").glob("*/__init__.py")]
    assert [package for package in packages if package not in named] == []
    drawn = re.findall(
        r"\w+", (ROOT / "docs" / "figures" / "house.svg").read_text(encoding="utf-8").partition("</desc>")[2]
    )
    assert [package for package in packages if package not in drawn] == []


def test_files_that_are_to_be_changed_are_there() -> None:
    cells = [cell for row in architecture("Where do I change what?").values() for cell in row]
    paths = [path for cell in cells for path in re.findall(r"`([\w./*]+(?:/|\.py|\.toml))`", cell)]
    assert len(paths) > 20
    places = (ROOT, ROOT / "replaycheck", ROOT / "kernels" / "replaycheck_kernels")
    assert [path for path in paths if not any(list(place.glob(path.rstrip("/"))) for place in places)] == []
