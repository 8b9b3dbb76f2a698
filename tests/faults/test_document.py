"""docs/faults.md has the tables of the data, and the example is what it says."""

from __future__ import annotations

from pathlib import Path

from replaycheck.faults.document import tables
from replaycheck.faults.fault import find_fault
from replaycheck.faults.shipped import FAULTS

ROOT = Path(__file__).parents[2]


def test_the_documented_tables_are_those_of_the_data() -> None:
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").endswith(tables())


def test_a_table_names_every_fault() -> None:
    text = tables()
    assert all(f"| `{name}` |" in text for name in FAULTS)


def test_the_example_is_short_and_a_fault() -> None:
    assert len((ROOT / "examples" / "fault.py").read_text(encoding="utf-8").splitlines()) < 40
    assert find_fault("examples.fault:FAULT").kind == "cast"
