"""What the diagnosis calls the shipped faults, as a part of selftest."""

from __future__ import annotations

from replaycheck.report.selftest_text import confusion_line, selftest_text
from replaycheck.schema.selftest import Confusion, NamedRow, Selftest
from replaycheck.selftest.confusion import confusion


def test_a_fault_in_each_of_its_cells_is_named() -> None:
    found = confusion(["conv-late"])
    assert found.rows and {row.fault for row in found.rows} == {"conv-late"}
    assert (found.shown, found.right) == (len(found.rows), len(found.rows))
    assert {row.confidence for row in found.rows} <= {"certain", "likely"}


def test_names_that_were_wrong_are_printed_and_counted() -> None:
    rows = (
        NamedRow(fault="one", code="RC101", named="RC101", confidence="certain", answer="right"),
        NamedRow(fault="two", code="RC102", named="RC201", confidence="certain", answer="confidently wrong"),
    )
    named = Confusion(rows=rows, shown=2, right=1, unknown=0, wrong=0, confidently_wrong=1)
    assert "of 2 cells that show a fault 1 named right (50 %)" in confusion_line(named)
    found = Selftest(
        model="m",
        seeds=(0,),
        device="cpu",
        quick=False,
        admission=(),
        faults=(),
        controls=(),
        confusion=named,
        seconds={},
    )
    text = selftest_text(found)
    assert "named   two: RC201 certain where RC102 is meant; confidently wrong" in text and "named   one" not in text
