"""Nothing of the lists of known faults is missing, and every name in the table is there."""

from __future__ import annotations

import re

from replaycheck.diagnose.codes import CODES
from replaycheck.faults.clean import CONTROLS
from replaycheck.faults.coverage import BENIGN, MODES, REPORTS, Covered
from replaycheck.faults.shipped import FAMILIES, FAULTS

NAMES = set(FAULTS) | {control.name for control in CONTROLS}
ENTRIES: dict[str, Covered] = {**{f"F{n}": covered for n, covered in MODES.items()}, **BENIGN, **REPORTS}


def test_every_fault_mode_benign_effect_and_report_is_in_the_table() -> None:
    assert sorted(MODES) == list(range(1, 71))
    assert sorted(BENIGN) == [f"B-{n}" for n in range(1, 9)]
    assert len(REPORTS) == 52
    assert all(re.fullmatch(r"B\d{2,3}", name) for name in REPORTS)


def test_every_name_of_the_table_is_a_fault_or_a_clean_variant() -> None:
    assert {name for covered in ENTRIES.values() for name in covered.by} - NAMES == set()


def test_an_entry_without_a_fault_says_why() -> None:
    assert [key for key, covered in ENTRIES.items() if bool(covered.by) is bool(covered.why_not)] == []


def test_benign_effects_and_reports_without_a_defect_are_clean_variants() -> None:
    clean = {control.name for control in CONTROLS}
    said = [each for each in ENTRIES.values() if "(no defect)" in each.what or "(benign)" in each.what]
    benign = [*BENIGN.values(), *said]
    assert {name for covered in benign for name in covered.by} <= clean
    assert sum("(no defect)" in each.what for each in REPORTS.values()) == 5


def test_every_shipped_fault_stands_for_something() -> None:
    used = {name for covered in ENTRIES.values() for name in covered.by}
    own = {"tail-kernel", "verify-writes", "copy-moves", "freed-readable", "freed-keeps-name", "keeps-against-policy",
           "pool-not-had"}  # fmt: skip
    assert set(FAULTS) - used == own


def test_names_are_unique_over_families() -> None:
    assert sum(len(faults) for faults in FAMILIES.values()) == len(FAULTS)
    assert not set(FAULTS) & {control.name for control in CONTROLS}


def test_every_code_has_a_page() -> None:
    assert {fault.code for fault in FAULTS.values()} <= set(CODES)
