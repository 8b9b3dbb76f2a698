"""The whole way on the tiny model: a floor is measured, stored, given to a run and judged from there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replaycheck.errors import ExitCode, UsageError
from replaycheck.floor.beyond import total_cells
from replaycheck.floor.condition import UNIT, condition_of_turn
from replaycheck.floor.controls import cold_arms
from replaycheck.floor.measure import for_floor, measure_floor
from replaycheck.floor.repeat import measure_repeat
from replaycheck.floor.text import floor_text, zero_lines
from replaycheck.floor.worst import worst_conditions
from replaycheck.gates.load import load_gates
from replaycheck.json_files import write_json
from replaycheck.replay.parts import read_part, write_part
from replaycheck.replay.run import run
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import work_of
from replaycheck.replay.store import Run
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.floor import Control, FloorFile
from replaycheck.schema.result import Result

GATES = """
schema = "replaycheck.gates/1"
name = "tight"

[[gate]]
name = "same-twice"
metric = "worst-trace"
scope = { effect = "total" }
floor = "run"
factor = 1.0
why = "no floor but that of the same run twice, which is 0"
admitted_by = "bf16-snapshot"
min_traces = 1
"""


@pytest.fixture(scope="module")
def floor(settings: Settings) -> FloorFile:
    return measure_floor(for_floor(settings), workers=1)


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gates") / "tight.toml"
    path.write_text(GATES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def judged(settings: Settings, gates: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Run, Result]:
    """A run that fails a gate on F_run, which it measures itself."""
    tight = replace(settings, gates=(load_gates(str(gates)),))
    return tight, *run(tight, tmp_path_factory.mktemp("run") / "run", workers=1)


def test_the_lab_is_deterministic_and_doesnt_depend_on_mates(floor: FloorFile) -> None:
    found = {each.control: each for each in floor.floors.measures}
    assert set(found) == set(Control)
    assert floor.floors.deterministic is True
    assert found[Control.REPEAT].exact_zero and found[Control.BATCH].exact_zero
    for control in (Control.SPLIT, Control.BUDGET, Control.KERNEL, Control.ROUNDED):
        assert any(each.bits_differ for each in floor.floors.measures if each.control is control)
    assert {each.positions for each in floor.floors.measures} == {19}
    assert floor.place.model_digest and floor.place.versions["torch"]


def test_one_rounding_of_a_state_costs_what_theory_says(floor: FloorFile) -> None:
    """bf16: uniform in half a step of 8 significant bits gives 1.66e-3 rms (numerics.md 2.2)."""
    rounded = next(each for each in floor.floors.measures if each.control is Control.ROUNDED)
    assert rounded.state_rel_error is not None
    # Of states of 64 × 32 elements whose significands aren't quite logarithmic: 2 % (see tests/kernels/test_precision.py).
    assert rounded.state_rel_error.value == pytest.approx(1.66e-3, rel=0.02)


def test_the_text_says_what_zero_means(floor: FloorFile) -> None:
    text = floor_text(floor)
    assert "F_run is 0: 19 positions of 1 cold path had the same bits twice" in text
    assert "Exact-zero mode" in text
    noisy = tuple(each.model_copy(update={"bits_differ": 1}) for each in floor.floors.measures)
    assert "no bitwise gate holds" in zero_lines(floor.floors.model_copy(update={"measures": noisy}))[0]


def test_a_run_measures_its_own_floor_and_repeats_only_for_a_gate_that_reads_it(
    settings: Settings, judged: tuple[Settings, Run, Result], floor: FloorFile, tmp_path: Path
) -> None:
    assert measure_repeat(settings, Run(tmp_path)) == ()
    _, _, result = judged
    assert result.floor is not None and result.floor.origin == "own"
    own = {each.control: each for each in result.floor.measures}
    assert set(own) == {Control.REPEAT, Control.SPLIT, Control.ROUNDED}
    assert own[Control.REPEAT].exact_zero
    assert own[Control.REPEAT].traces == 1
    # The same numbers as the verb's, whose cells are others.
    for control in (Control.SPLIT, Control.ROUNDED):
        assert own[control] == next(each for each in floor.floors.measures if each.control is control)
    assert not result.floor.not_measured


def test_f_run_holds_the_stored_cold_arm_against_a_replay(judged: tuple[Settings, Run, Result], tmp_path: Path) -> None:
    tight, record, _ = judged
    copy = Run(shutil.copytree(record.path, tmp_path / "run"))
    said: list[str] = []
    assert [each.bits_differ for each in measure_repeat(tight, copy, said.append)] == [0, 0]
    assert said == ["cold once more, for F_run: 1 of 1 groups (g0)"]
    # One digest of the stored cold arm is another: one position differs from its repeat.
    rows = read_part(copy, "observations", "g0").to_pandas()
    at = rows.index[rows["arm"] == cold_arms(tight.arms)[0].name][-1]
    rows.loc[at, "logits_digest"] = rows["logits_digest"][at][::-1]
    write_part(copy, "observations", "g0", rows)
    assert [each.bits_differ for each in measure_repeat(tight, copy)] == [1, 0]


def test_a_failing_total_cell_gets_the_condition_of_its_worst_positions(judged: tuple[Settings, Run, Result]) -> None:
    tight, record, result = judged
    assert total_cells(result)
    finding = next(each for each in result.findings if each.code == "RC905")
    assert 1 <= len(finding.evidence) <= 6
    assert all("condition" in line and "8 draws" in line for line in finding.evidence)
    grid = [cell for cell in result.cells if cell.effect == "grid"]
    with pytest.raises(UsageError, match="effect total"):
        worst_conditions(tight, record, result, grid)


def test_a_perturbation_is_one_rounding_and_acts_after_the_restore_only(settings: Settings) -> None:
    warm = next(a for a in settings.arms if a.compiler is Compiler.WARM and a.pool is PoolDtype.BF16)
    work, group = work_of(settings), settings.groups[0]
    found = condition_of_turn(work, group, warm, ("t0", 0, 1), draws=3)
    # Uniform in ±u: rms u / √3, if all elements weigh alike.
    assert found.size == pytest.approx(UNIT[PoolDtype.BF16] / np.sqrt(3), rel=0.02)
    assert len(found.condition) == len(found.positions) == 4
    assert (found.condition > 0).all()
    again = condition_of_turn(work, group, warm, ("t0", 0, 1), draws=3)
    assert np.array_equal(found.condition, again.condition)
    other = condition_of_turn(work, group, warm, ("t0", 0, 1), draws=3, seed=1)
    assert not np.array_equal(found.condition, other.condition)
    with pytest.raises(UsageError, match="restores no state"):
        condition_of_turn(work, group, warm, ("t0", 0, 0), draws=1)


def test_run_takes_a_stored_floor_and_refuses_one_from_elsewhere(
    replaycheck: Callable[..., object], floor: FloorFile, suite: Path, model: Path, gates: Path, tmp_path: Path
) -> None:
    stored, elsewhere = tmp_path / "floor.json", tmp_path / "elsewhere.json"
    write_json(stored, floor)
    write_json(elsewhere, floor.model_copy(update={"place": floor.place.model_copy(update={"recipe": "exact"})}))
    args = ("run", suite, "--model", model, "--gates", gates, "--workers", 1, "--out", tmp_path / "run")
    refused = replaycheck(*args, "--floor", elsewhere)
    assert refused.code == ExitCode.USAGE
    assert "recipe exact, here sglang" in refused.err
    assert not (tmp_path / "run").exists()
    assert replaycheck(*args, "--floor", stored).code == ExitCode.FAIL
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["floor"]["origin"] == "given"
    assert len(result["floor"]["digest"]) == 32
    assert len(result["floor"]["measures"]) == len(floor.floors.measures)
