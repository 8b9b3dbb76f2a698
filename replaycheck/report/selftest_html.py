"""selftest.html: the detection matrix as one file that works offline and without scripts; selftest.json beside it."""

from __future__ import annotations

from pathlib import Path

from replaycheck.files import made_folder, new_folder, write_atomically
from replaycheck.json_files import write_json
from replaycheck.schema.selftest import Selftest

from .html import templates
from .selftest_text import METRICS, confusion_line, counts, first_of, shown

__all__ = ["selftest_page", "write_selftest"]


def write_selftest(out: Path, found: Selftest) -> Path:
    """Write selftest.json and selftest.html into ``out`` and return the page's path.

    Raises:
        UsageError: the folder can't be made, or isn't empty.
    """
    made_folder(new_folder(out))
    write_json(out / "selftest.json", found)
    page = out / "selftest.html"
    write_atomically(page, selftest_page(found).encode("utf-8"))
    return page


def selftest_page(found: Selftest) -> str:
    """The page as text; every string of a fault is escaped."""
    families = list(dict.fromkeys(row.family for row in found.faults))
    named = "; ".join(confusion_line(each) for each in (found.confusion, found.held_out) if each)
    page = templates().get_template("selftest.html.j2")
    return page.render(
        found=found,
        counts=counts(found),
        families=families,
        metrics=METRICS,
        shown=shown,
        first_of=first_of,
        named=named,
    )
