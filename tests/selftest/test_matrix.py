"""Verdicts of the matrix from answers made by hand; two faults and a clean variant really run; text and page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.assets import model_dir
from replaycheck.faults.clean import CONTROLS
from replaycheck.faults.shipped import FAULTS
from replaycheck.gates.load import load_gates
from replaycheck.report.selftest_html import selftest_page
from replaycheck.report.selftest_text import selftest_text
from replaycheck.schema.selftest import CellRecord, Selftest
from replaycheck.selftest.controls import run_control
from replaycheck.selftest.lab import Lab
from replaycheck.selftest.matrix import QUICK, Found, control_rows, fault_rows, plan
from replaycheck.selftest.probes import failed_probes

LATE = FAULTS["conv-late"]
CLAIMS = LATE.claims


def cell(seed: int, failed: tuple[str, ...], kind: str = "cell") -> Found:
    return Found(kind, "conv-late", CellRecord(seed=seed, cell=LATE.cells[0].name, failed=failed))


def test_a_claim_counts_only_if_it_holds_with_every_seed() -> None:
    (row,) = fault_rows(["conv-late"], [cell(0, CLAIMS), cell(1, CLAIMS)])
    assert (row.verdict, row.missed_by, set(row.caught_by)) == ("caught", (), set(CLAIMS))
    (row,) = fault_rows(["conv-late"], [cell(0, CLAIMS), cell(1, CLAIMS[1:])])
    assert (row.verdict, row.missed_by) == ("escaped", CLAIMS[:1])


def test_a_check_that_fails_where_a_fault_changes_nothing_is_a_false_alarm() -> None:
    (row,) = fault_rows(["conv-late"], [cell(0, CLAIMS), cell(0, ("exact/labels",), "silent")])
    assert row.alarms == (f"{LATE.cells[0].name}: exact/labels",)
    assert not made([cell(0, CLAIMS), cell(0, ("exact/labels",), "silent")]).passed


def made(found: list[Found]) -> Selftest:
    return Selftest(
        model="m",
        seeds=(0,),
        device="cpu",
        quick=False,
        admission=(),
        faults=fault_rows(["conv-late"], found),
        controls=control_rows(found),
        seconds={},
    )


def test_an_escape_or_a_loud_clean_variant_fails_and_is_named() -> None:
    loud = Found("control", "plain", CellRecord(seed=0, cell="c", failed=("exact/logits-bits",)))
    assert made([cell(0, CLAIMS)]).passed
    assert not made([cell(0, CLAIMS), loud]).passed
    text = selftest_text(made([cell(0, CLAIMS[1:]), loud]))
    assert "ESCAPED conv-late" in text and f"not seen by {CLAIMS[0]}" in text and "ALARM   plain" in text
    assert "1 escaped; 1 false alarms in 1 clean variants" in text


def test_the_page_escapes_what_faults_say() -> None:
    record = CellRecord(seed=0, cell=LATE.cells[0].name, failed=CLAIMS, refused="<script>alert(1)</script>")
    page = selftest_page(made([Found("cell", "conv-late", record)]))
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "default-src 'none'" in page


def test_quick_names_are_there_and_have_every_kind_and_family() -> None:
    assert set(QUICK) <= set(FAULTS)
    assert {FAULTS[name].kind for name in QUICK} == {fault.kind for fault in FAULTS.values()}


def test_jobs_share_a_group_a_seed_and_run_the_longest_first() -> None:
    jobs = plan(["conv-late", "conv-early", "beta-raw"], (0, 1), Path("m"), "cpu")
    sizes = [len(job.names) for job in jobs]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(job.kind == "cells" and job.group == "twice" for job in jobs) == 2
    assert sum(job.kind == "controls" for job in jobs) == 2


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(model_dir(None), (load_gates("exact"),), 0)


@pytest.mark.parametrize("name", ["conv-late", "never-written", "never-written-poisoned"])
def test_a_fault_in_its_cell_is_caught_as_claimed_and_looks_as_expected(name: str, lab: Lab) -> None:
    fault = FAULTS[name]
    seen = lab.run(fault.cells[0], fault, name)
    assert set(fault.claims) <= set(seen.failed)
    if fault.expected is None:
        assert "lab/refused" in seen.failed  # nothing ran that could look like anything
    else:
        assert seen.signature and not fault.expected.differs(seen.signature)


def test_a_clean_cell_and_a_clean_variant_fail_nothing(lab: Lab) -> None:
    assert lab.run(LATE.cells[0], None).failed == ()
    seen = run_control(lab, next(control for control in CONTROLS if control.name == "other-tiles"))
    assert seen.failed == () and seen.differ > 0


@pytest.mark.parametrize(
    "name", ["scale-twice", "norm-without-epsilon", "series-inverse", "keys-scaled", "cache-never-hits"]
)
def test_faults_that_no_logits_show_are_seen_by_the_probe_that_they_name(name: str) -> None:
    fault, gates = FAULTS[name], (load_gates("exact"),)
    assert set(failed_probes(fault, fault.claims, model_dir(None), gates, 0)) == set(fault.claims)
    assert failed_probes(None, fault.claims, model_dir(None), gates, 0) == ()


def test_a_third_partys_fault_goes_through_the_command(tmp_path: Path, replaycheck: Callable[..., Any]) -> None:
    out = tmp_path / "selftest"
    arguments = ["selftest", "--fault", "examples.fault:FAULT", "--quick", "--workers", 1, "--out", out]
    done = replaycheck(*arguments, "--json")
    assert done.code == 0, done.out + done.err
    found = Selftest.model_validate_json(done.out)
    assert found == Selftest.model_validate_json((out / "selftest.json").read_text())
    assert [row.verdict for row in found.faults] == ["caught"] and not found.faults[0].unlike
    assert "examples.fault:FAULT" in (out / "selftest.html").read_text()
    assert replaycheck(*arguments).code == 2  # the folder isn't empty


def test_an_unknown_fault_is_a_usage_error(replaycheck: Callable[..., Any]) -> None:
    assert replaycheck("selftest", "--fault", "no-such-fault").code == 2


def test_what_a_gpu_cannot_have_is_left_out_and_said() -> None:
    from replaycheck.selftest.run import _here

    said: list[str] = []
    assert _here(("conv-late", "silu-missing"), "cuda", said.append) == ("conv-late",)
    assert said == ["silu-missing isn't planted on cuda: the GPU's convolution always applies SiLU"]
    assert _here(("conv-late", "silu-missing"), "cpu", said.append) == ("conv-late", "silu-missing")
    (controls,) = [job for job in plan(("conv-late",), (0,), Path("m"), "cuda") if job.kind == "controls"]
    assert "wide-sums" not in controls.names and "plain" in controls.names
