"""``compare OLD NEW --no-worse``: exit codes, what can't be a baseline, and log-probabilities that mean something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaycheck.replay.store import Run, read_result, write_json
from replaycheck.schema.semantics import LogprobSemantics
from tests import synthetic_result as made
from tests import synthetic_run as syn

Command = Callable[..., Any]


def changed(path: Path, **changes: Any) -> None:
    """Fields of a run's result."""
    write_json(path / "result.json", read_result(Run(path)).model_copy(update=changes))


def passed(path: Path, change: made.Change = lambda found: found) -> Path:
    """A run whose summary passes, whatever its gates say."""
    made.whole(path, change)
    summary = read_result(Run(path)).summary
    changed(path, summary=summary.model_copy(update={"verdict": "pass", "exit_code": 0}))
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return passed(tmp_path / "old")


def test_the_same_numbers_are_no_worse(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    outcome = replaycheck("compare", old, passed(tmp_path / "new"), "--no-worse")
    assert outcome.code == 0
    assert "PASS  no worse than A? No worse than the baseline in all 3 cells." in outcome.out
    assert "3 of 3 cells pass; 1 grid cells aren't judged" in outcome.out
    assert outcome.out.startswith("environment: the same\n")


def test_a_cell_that_was_exact_and_is_no_longer_fails(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    outcome = replaycheck("compare", old, passed(tmp_path / "new", syn.louder), "--no-worse", "--json")
    found = json.loads(outcome.out)["no_worse"]
    assert (outcome.code, found["verdict"]) == (1, "fail")
    exact = next(cell for cell in found["cells"] if cell["effect"] == "exact")
    assert (exact["mode"], exact["verdict"], exact["new"]["value"]) == ("exact-zero", "fail", 6 * syn.SCORED)
    assert exact["worst_trace"] == "a"


def test_a_little_more_noise_in_two_traces_is_inconclusive(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    """Warm and split-rounded stay equal and move away from cold and split together: no exact cell changes."""

    def both(found: dict[str, Any]) -> dict[str, Any]:
        turns = {"warm": syn.turns(True, syn.noise(1.1e-3)), "split-rounded": syn.turns(False, syn.noise(1.1e-3))}
        kinds = {name: name.partition("/")[0] for name in found}
        return {
            name: replace(one, turns=turns[kinds[name]]) if kinds[name] in turns else one for name, one in found.items()
        }

    outcome = replaycheck("compare", old, passed(tmp_path / "new", both), "--no-worse")
    assert outcome.code == 6
    assert "INCONCLUSIVE  no worse than A?" in outcome.out
    assert "under 32 traces prove nothing" in outcome.out
    assert "margin" in outcome.out and "the baseline's cold vs split" in outcome.out


def test_a_margin_that_is_given_is_stated(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    outcome = replaycheck("compare", old, passed(tmp_path / "new"), "--no-worse", "--margin", "0.25", "--json")
    margins = {
        cell["effect"]: (cell["margin"], cell["margin_why"]) for cell in json.loads(outcome.out)["no_worse"]["cells"]
    }
    assert margins["total"] == (0.25, "given with --margin")
    assert margins["exact"][0] == 0.0


def test_a_cell_that_never_hit_is_vacuous_and_not_better(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    new = passed(tmp_path / "new")
    cells = read_result(Run(new)).cells
    changed(new, cells=tuple(cell.model_copy(update={"vacuous": True, "why_vacuous": "no hit"}) for cell in cells))
    outcome = replaycheck("compare", old, new, "--no-worse")
    assert outcome.code == 5
    assert "the cell proves nothing, no hit" in outcome.out


def test_a_cell_that_is_gone_can_not_pass(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    new = passed(tmp_path / "new")
    changed(new, cells=tuple(cell for cell in read_result(Run(new)).cells if cell.effect != "exact"))
    outcome = replaycheck("compare", old, new, "--no-worse")
    assert outcome.code == 6
    assert "1 cells of the baseline aren't in the new run, the first is exact/" in outcome.out


@pytest.mark.parametrize(
    ("verdict", "faults", "said"),
    [
        ("fail", (), "failed (gate logits-bits: "),
        ("vacuous", (), "is vacuous, it compared nothing or never hit"),
        ("pass", ("bf16-snapshot",), "had a fault planted on purpose (bf16-snapshot)"),
    ],
)
def test_what_can_not_be_a_baseline(
    replaycheck: Command, old: Path, tmp_path: Path, verdict: str, faults: tuple[str, ...], said: str
) -> None:
    result = read_result(Run(old))
    gates = tuple(gate.model_copy(update={"verdict": verdict}) for gate in result.gates)
    changed(old, gates=gates, faults=faults, summary=result.summary.model_copy(update={"verdict": verdict}))
    outcome = replaycheck("compare", old, passed(tmp_path / "new"), "--no-worse")
    assert outcome.code == 2
    assert said in outcome.err
    assert "a failed run never becomes a baseline; give one that passed" in outcome.err
    assert replaycheck("compare", old, tmp_path / "new").code == 0


def test_without_a_grid_cell_the_margin_must_be_given(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    changed(old, cells=tuple(cell for cell in read_result(Run(old)).cells if cell.effect != "grid"))
    outcome = replaycheck("compare", old, passed(tmp_path / "new"), "--no-worse")
    assert outcome.code == 2
    assert "give --margin NAT" in outcome.err
    assert replaycheck("compare", old, tmp_path / "new", "--no-worse", "--margin", "0.001").code == 0


def test_a_margin_without_the_question_is_refused(replaycheck: Command, old: Path) -> None:
    assert replaycheck("compare", old, old, "--margin", "1").code == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 0.7), ("softmax", "top 20, float32"), ("vocabulary", "other"), ("processed", True)],
)
def test_other_log_probabilities_are_refused(
    replaycheck: Command, old: Path, tmp_path: Path, field: str, value: object
) -> None:
    mine = LogprobSemantics(vocabulary="ascii-144")
    new = passed(tmp_path / "new")
    changed(old, logprobs=mine)
    changed(new, logprobs=mine.model_copy(update={field: value}))
    outcome = replaycheck("compare", old, new)
    assert outcome.code == 2
    assert f"a log-probability isn't the same thing in both runs: {field} is " in outcome.err


def test_a_run_from_before_they_were_recorded_compares(replaycheck: Command, old: Path, tmp_path: Path) -> None:
    data = json.loads((old / "result.json").read_text())
    del data["logprobs"]
    (old / "result.json").write_text(json.dumps(data))
    new = passed(tmp_path / "new")
    changed(new, logprobs=LogprobSemantics(vocabulary="ascii-144"))
    assert replaycheck("compare", old, new).code == 0
