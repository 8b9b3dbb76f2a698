"""``compare`` and ``gate`` on saved runs: contents, exit codes, JSON, bad input; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaycheck.gates.admission import admit, write_admission
from replaycheck.gates.load import load_gates
from tests import synthetic_result as made
from tests import synthetic_run as syn

Command = Callable[..., Any]

GATES = """schema = "replaycheck.gates/1"
name = "mine"
[[gate]]
name = "bits"
metric = "positions-bits-differ"
scope = { effect = "exact" }
bound = 0
why = "equal by construction"
admitted_by = "bf16-snapshot"
min_traces = 1
"""


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """A user's gate file that was admitted."""
    path = tmp_path / "mine.toml"
    path.write_text(GATES)
    loaded = load_gates(str(path))
    write_admission(loaded, {gate.name: admit(gate, 0, 1) for gate in loaded.gates.gate}, "m1", "s1", {})
    return path


def test_gate_judges_a_saved_run_and_writes_nothing(replaycheck: Command, tmp_path: Path, gates: Path) -> None:
    made.whole(tmp_path / "run")
    before = snapshot(tmp_path / "run")
    outcome = replaycheck("gate", tmp_path / "run", "--gates", gates)
    assert outcome.code == 0
    assert "pass: 1 of 1 gates pass" in outcome.out
    assert outcome.err == ""
    assert snapshot(tmp_path / "run") == before


def test_gate_exits_1_on_a_failing_run_and_prints_one_json_object(
    replaycheck: Command, tmp_path: Path, gates: Path
) -> None:
    made.whole(tmp_path / "run", syn.louder)
    outcome = replaycheck("gate", tmp_path / "run", "--gates", gates, "--json")
    found = json.loads(outcome.out)
    assert outcome.code == found["summary"]["exit_code"] == 1
    assert found["gates"][0]["verdict"] == "fail"


def test_gate_annotates_the_line_of_the_gate_on_github(
    replaycheck: Command, tmp_path: Path, gates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    made.whole(tmp_path / "run", syn.louder)
    outcome = replaycheck("gate", tmp_path / "run", "--gates", gates, "--json", "--github")
    assert json.loads(outcome.out)["summary"]["verdict"] == "fail"
    assert "::error file=mine.toml,line=3,title=replaycheck%3A gate mine.toml/bits fails::" in outcome.err
    assert "::error" not in replaycheck("gate", tmp_path / "run", "--gates", gates, "--json").err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error" in replaycheck("gate", tmp_path / "run", "--gates", gates).out
    assert "::error" not in replaycheck("gate", tmp_path / "run", "--gates", gates, "--no-github").out


def test_gate_without_a_record_warns(replaycheck: Command, tmp_path: Path, gates: Path) -> None:
    made.whole(tmp_path / "run")
    gates.with_name("mine.admission.json").unlink()
    outcome = replaycheck("gate", tmp_path / "run", "--gates", gates)
    assert outcome.code == 0
    assert "no record shows that its gates can fail" in outcome.err


def test_gate_asks_for_the_file_of_a_run_that_a_users_file_judged(
    replaycheck: Command, tmp_path: Path, gates: Path
) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    made.judged(run, gates=[str(gates)])
    outcome = replaycheck("gate", tmp_path / "run")
    assert outcome.code == 2
    assert "'mine.toml', which doesn't ship; give --gates FILE" in outcome.err


@pytest.mark.parametrize("verb", [("gate",), ("compare", ".")])
def test_what_is_no_run_is_refused(replaycheck: Command, tmp_path: Path, verb: tuple[str, ...]) -> None:
    outcome = replaycheck(*verb, tmp_path / "none")
    assert outcome.code == 2
    assert "isn't a run" in outcome.err


def test_a_damaged_part_is_refused(replaycheck: Command, tmp_path: Path, gates: Path) -> None:
    made.whole(tmp_path / "run")
    part = tmp_path / "run" / "restores" / "g.parquet"
    part.write_bytes(part.read_bytes()[:100])
    outcome = replaycheck("gate", tmp_path / "run", "--gates", gates)
    assert outcome.code == 2
    assert str(part) in outcome.err


def two(tmp_path: Path, change: made.Change = syn.louder) -> tuple[Path, Path]:
    made.whole(tmp_path / "a")
    made.whole(tmp_path / "b", change)
    return tmp_path / "a", tmp_path / "b"


def test_compare_of_equal_runs_finds_no_difference(replaycheck: Command, tmp_path: Path) -> None:
    outcome = replaycheck("compare", *two(tmp_path, lambda found: found), "--json")
    found = json.loads(outcome.out)
    assert outcome.code == 0
    assert found["environment"] == {}
    assert len(found["arms"]) == 4
    assert all(arm["bits_differ"] == 0 and arm["abs_dlogp"]["max"] == 0 for arm in found["arms"])


def test_compare_shows_the_arm_that_changed_and_null_kl(replaycheck: Command, tmp_path: Path) -> None:
    outcome = replaycheck("compare", *two(tmp_path), "--json")
    arms = {arm["arm"].split("/")[0]: arm for arm in json.loads(outcome.out)["arms"]}
    assert {name for name, arm in arms.items() if arm["bits_differ"]} == {"warm"}
    assert arms["warm"]["bits_differ"] == 6 * syn.SCORED
    assert arms["warm"]["flips"] > 0
    assert arms["warm"]["kl_mean"]["value"] is None
    assert arms["warm"]["first_divergence"]["bits"] == syn.position(1) - syn.restored_at(1)
    assert outcome.code == 0


def test_compare_prints_the_environment_before_the_table(replaycheck: Command, tmp_path: Path) -> None:
    a, b = two(tmp_path)
    text = (b / "environment.json").read_text()
    (b / "environment.json").write_text(text.replace('"device": "cpu"', '"device": "cu\\u001b[31mda"'))
    lines = replaycheck("compare", a, b).out.splitlines()
    assert lines[0] == "environment: different in"
    assert lines[1] == "  device: cpu in A, cu\\x1b[31mda in B"
    assert lines[3].startswith("arm ")
    assert lines[-1].startswith("warm/")


def test_compare_refuses_other_models(replaycheck: Command, tmp_path: Path) -> None:
    made.whole(tmp_path / "a")
    run = made.started(tmp_path / "b")
    made.fill(run)
    made.judged(run, info=replace(made.INFO, model_digest="m2"))
    outcome = replaycheck("compare", tmp_path / "a", tmp_path / "b")
    assert outcome.code == 2
    assert "compare runs of one model" in outcome.err


def test_compare_refuses_other_tokens(replaycheck: Command, tmp_path: Path) -> None:
    def shifted(found: dict[str, Any]) -> dict[str, Any]:
        return {
            name: replace(one, turns=tuple(replace(turn, tokens=turn.tokens ^ 1) for turn in one.turns))
            for name, one in found.items()
        }

    outcome = replaycheck("compare", *two(tmp_path, shifted))
    assert outcome.code == 2
    assert "same traces and vocabulary" in outcome.err


def test_compare_of_runs_that_share_nothing_is_vacuous(replaycheck: Command, tmp_path: Path) -> None:
    def later(found: dict[str, Any]) -> dict[str, Any]:
        return {
            name: replace(one, turns=tuple(replace(turn, positions=turn.positions + 1000) for turn in one.turns))
            for name, one in found.items()
        }

    outcome = replaycheck("compare", *two(tmp_path, later))
    assert outcome.code == 5
    assert "nothing was compared" in outcome.out
