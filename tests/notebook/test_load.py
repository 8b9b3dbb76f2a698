"""replaycheck.load: the tables of a run as frames, its parts as objects, and nothing that HTML could be injected with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import replaycheck
from replaycheck.errors import UsageError
from replaycheck.notebook.html import table
from replaycheck.notebook.run import LoadedRun
from replaycheck.notebook.shown import Cells, Gates, Verdict
from replaycheck.schema.arm import Effect
from replaycheck.schema.result import Finding
from replaycheck.schema.tables import TABLES

ATTACK = "<script>alert(1)</script>\u202e"


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_frames_with_the_columns_of_the_contract(good: LoadedRun, name: str) -> None:
    frame = getattr(good, name)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == TABLES[name].names
    assert len(frame) > 0


@pytest.mark.parametrize("name", TABLES)
def test_columns_say_what_they_mean(good: LoadedRun, name: str) -> None:
    found = good.columns(name)
    assert list(found["column"]) == list(getattr(good, name).columns)
    assert found["meaning"].str.len().min() > 2 and not found["type"].str.contains("dictionary").any()


def test_an_unknown_table_is_named(good: LoadedRun) -> None:
    assert (
        good.columns("pairs").set_index("column").loc["dlogp", "meaning"].startswith("nat, candidate minus reference")
    )
    with pytest.raises(UsageError, match=r"has no table 'pair' \(did you mean 'pairs'"):
        good.columns("pair")


def test_a_table_is_read_when_it_is_asked_for(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("replaycheck.notebook.run.read_table", lambda run, table: asked.append(table) or pd.DataFrame())
    run = replaycheck.load(folders[0])
    assert run.result.suite == "quick" and not asked
    assert run.pairs is run.pairs
    assert asked == ["pairs"]


def test_the_verdict_is_that_of_the_report(good: LoadedRun, bad: LoadedRun) -> None:
    assert (good.verdict.name, good.verdict.exit_code) == ("pass", 0)
    assert (bad.verdict.name, bad.verdict.exit_code) == ("fail", 1)
    assert "FAIL" in bad._repr_html_() and "PASS" not in bad._repr_html_()


def test_findings_are_shown_with_the_command_that_repeats_them(bad: LoadedRun) -> None:
    finding = Finding(code="RC204", title="late", sentence="one token late", evidence=(), reproduce="replaycheck run x")
    shown = replace(bad.verdict, findings=(finding,))._repr_html_()
    assert "RC204" in shown and "replaycheck run x" in shown


def test_cells_are_filtered_by_any_of_their_sides(bad: LoadedRun) -> None:
    exact = bad.cells.where(effect="exact", pool="fp16", differ=True)
    assert [cell.effect for cell in exact] == [Effect.EXACT]
    assert exact[0].name == bad.cells.where(name="exact/*")[0].name
    assert len(bad.cells.where(pool="bf16")) == 0
    assert len(bad.cells.where(answers="decoded")) == len(bad.cells) == len(bad.cells.frame)


def test_gates_are_filtered_and_framed(bad: LoadedRun) -> None:
    failed = bad.gates.where(verdict="fail")
    assert 0 < len(failed) < len(bad.gates)
    assert set(failed.frame["verdict"]) == {"fail"}
    assert failed.frame.loc[0, "value"] > failed.frame.loc[0, "bound"]


def test_the_pairs_of_one_trace(bad: LoadedRun) -> None:
    cell = bad.cells.where(effect="exact")[0].name
    rows = bad.trace("a", cell)
    assert set(rows["trace"]) == {"a"} and set(rows["cell"]) == {cell}
    assert rows["dlogp"].abs().max() > 0
    with pytest.raises(UsageError, match=r"has no trace 'z'; it has 'a' or 'b'"):
        bad.trace("z", cell)
    with pytest.raises(UsageError, match=r"has no cell 'nothing'"):
        bad.trace("a", "nothing")


def test_judging_again_reads_another_gate_file(bad: LoadedRun, tmp_path: Path) -> None:
    gates = tmp_path / "loose.toml"
    gates.write_text(
        'schema = "replaycheck.gates/1"\nname = "loose"\n[[gate]]\nname = "few"\nmetric = "positions-bits-differ"\n'
        'scope = { effect = "exact" }\nbound = 1000.0\nwhy = "a test"\nadmitted_by = "bf16-snapshot"\nmin_traces = 1\n'
    )
    again = bad.judge(gates)
    assert again.summary.verdict == "pass"
    assert again.warnings and "few" in again._repr_html_()
    assert bad.judge().summary.exit_code == 1


def test_two_runs_are_compared(good: LoadedRun, bad: LoadedRun) -> None:
    found = good.compare(bad)
    warm = found.frame[found.frame["arm"].str.startswith("warm/")]
    assert warm["bits_differ"].sum() > 0
    assert found.frame["bits_differ"].sum() == warm["bits_differ"].sum()
    assert "Environment: the same" in good.compare(good.path)._repr_html_()


@pytest.mark.parametrize("what", ["verdict", "gates", "cells", "table"])
def test_text_from_outside_is_escaped(good: LoadedRun, what: str) -> None:
    cell = good.cells[0].model_copy(update={"name": ATTACK})
    shown = {
        "verdict": Verdict(ATTACK, 1, ATTACK, ATTACK, ATTACK, ATTACK, ())._repr_html_(),
        "gates": Gates((good.gates[0].model_copy(update={"worst": ATTACK, "sentence": ATTACK}),))._repr_html_(),
        "cells": replace(good.cells, results=(cell,))._repr_html_(),
        "table": table([ATTACK], [[ATTACK]], ATTACK),
    }[what]
    assert "<script" not in shown and "\u202e" not in shown
    assert "&lt;script&gt;" in shown


def test_slices_stay_what_they_are(good: LoadedRun) -> None:
    assert isinstance(good.cells[:2], Cells) and isinstance(good.gates[:2], Gates)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=str(tmp_path)):
        replaycheck.load(tmp_path)
