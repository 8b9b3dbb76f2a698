"""Every row of ``probe state`` is exact as it is, and is broken by the fault planted for it, with an example."""

from __future__ import annotations

import pytest

from replaycheck.schema.state_table import StateTable
from replaycheck.state_probes import lab, slots
from replaycheck.state_probes.checks import CHECKS, probe_state
from replaycheck.state_probes.groups import GROUPS
from replaycheck.state_probes.policies import PLAYED
from replaycheck.state_probes.subject import Subject
from replaycheck.subjects.lab.network import Network
from tests.state_probes.faults import FAULTS

NAMES = [check.name for check in CHECKS]


@pytest.fixture(scope="module")
def network() -> Network:
    return Subject().network


@pytest.fixture(scope="module")
def clean() -> StateTable:
    return probe_state(Subject())


def test_every_row_is_exact_or_says_why_it_cannot_be_probed(clean: StateTable) -> None:
    assert [row.name for row in clean.rows] == NAMES
    assert [(row.name, row.example) for row in clean.rows if row.verdict == "broken"] == []
    cannot = {row.name for row in clean.rows if row.verdict == "can't"}
    assert cannot == {name for name in NAMES if name.startswith("triton-")}
    assert all("--device cuda" in row.sentence for row in clean.rows if row.name in cannot)


def test_what_was_looked_at_is_never_nothing(clean: StateTable) -> None:
    counted = {row.name: row.values["looked_at"] for row in clean.rows if "looked_at" in row.values}
    assert len(counted) == 13 and all(count for count in counted.values()), counted


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_breaks_its_rows(name: str, network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    subject = Subject(only=tuple(fault.rows))
    subject.__dict__["network"] = network
    monkeypatch.setattr(slots, "GROUPS", {name: GROUPS[name] for name in ("beam", "tiers")})
    monkeypatch.setattr(lab, "PLAYED", (PLAYED[0], PLAYED[3]))
    fault.plant(subject, monkeypatch)
    rows = {row.name: row for row in probe_state(subject).rows}
    for row in fault.rows:
        assert rows[row].verdict == "broken", rows[row]
        assert rows[row].example, rows[row]
    assert fault.example in rows[fault.rows[0]].example, rows[fault.rows[0]].example


def test_every_row_that_runs_on_a_cpu_has_a_fault() -> None:
    faulty = {row for fault in FAULTS.values() for row in fault.rows}
    assert {name for name in NAMES if not name.startswith("triton-")} == faulty
