"""The end of a run: what was stored becomes one result, whoever wrote it and in how many goes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from replaycheck.compare.group import compare_group
from replaycheck.errors import InternalError
from replaycheck.gates.load import load_gates
from replaycheck.replay.assemble import assemble, collect
from replaycheck.replay.store import write_group
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.result import Finding, Result
from tests import synthetic_result as made
from tests import synthetic_run as syn


def test_a_clean_run_passes_every_gate(tmp_path: Path) -> None:
    result = made.whole(tmp_path / "run")
    assert {gate.name: gate.verdict for gate in result.gates} == {
        gate.name: "pass" for gate in load_gates("exact").gates.gate
    }
    assert (result.summary.verdict, result.summary.exit_code) == ("pass", 0)
    assert (result.summary.traces, result.summary.restores) == (2, 6)


def test_findings_see_the_judged_result_and_the_restores(tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    arms, cells = syn.arms_and_cells(PoolDtype.FP16)
    seen = []

    def find(result: Result, restores: pd.DataFrame) -> tuple[Finding, ...]:
        seen.append((len(result.gates), len(restores), result.findings))
        return (Finding(code="RC101", title="t", sentence="s", evidence=(), reproduce="r"),)

    result = assemble(made.INFO, collect(run, arms, cells), made.PROBES, [load_gates("exact")], find)
    assert [finding.code for finding in result.findings] == ["RC101"]
    places = len(syn.LAYERS) * syn.HEADS  # of a clean run, one row a place of the exact cell
    assert seen == [(9, places, ())]


def test_groups_add_up_whatever_order_they_finished_in(tmp_path: Path) -> None:
    arms, cells = syn.arms_and_cells(PoolDtype.FP16)
    results = []
    for order in (("g", "h"), ("h", "g")):
        run = made.started(tmp_path / order[0])
        for name in order:
            group = compare_group(name, arms, cells, syn.recordings(arms))
            tables = {
                table: rows.set_column(
                    rows.schema.get_field_index("trace"), "trace", [[name + str(t) for t in rows["trace"].to_pylist()]]
                )
                for table, rows in group.tables.items()
            }
            write_group(run, tables, group.record)
        results.append(made.judged(run))
    assert results[0] == results[1]
    assert results[0].summary.traces == 4


def test_an_arm_that_no_group_has_is_our_error(tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    with pytest.raises(InternalError, match="no group of the run has the arm"):
        collect(run, (syn.arm(Compiler.WARM, PoolDtype.BF16),), ())
