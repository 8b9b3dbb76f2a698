"""The main job through the command line, on the shipped model."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from replaycheck.schema.result import Result

Run = Callable[..., Any]

TABLES = ("observations", "pairs", "restores")


@pytest.fixture(scope="module")
def clean(tiny_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from replaycheck.cli.main import invoke

    out = tmp_path_factory.mktemp("runs") / "clean"
    assert invoke(["run", str(tiny_suite), "--out", str(out), "--workers", "1"]) == 0
    return out


def deterministic_files(run: Path) -> dict[str, bytes]:
    paths = [
        run / "result.json",
        run / "divergences.parquet",
        *(p for t in TABLES for p in sorted((run / t).iterdir())),
    ]
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def test_a_clean_run_passes_and_leaves_every_file_of_the_contract(clean: Path) -> None:
    files = {path.name for path in clean.iterdir()}
    assert {"result.json", "environment.json", "divergences.parquet", "report.html", "junit.xml", "summary.md"} <= files
    result = json.loads((clean / "result.json").read_text())
    jsonschema.validate(result, Result.model_json_schema())
    assert result["summary"]["verdict"] == "pass"
    exact = [cell for cell in result["cells"] if cell["effect"] == "exact"]
    assert [cell["bits_differ"] for cell in exact] == [0, 0, 0] and all(cell["positions"] > 100 for cell in exact)
    reduced = [c for c in result["cells"] if c["effect"] == "state" and not c["name"].endswith("fp32")]
    assert all(cell["bits_differ"] > 0 for cell in reduced), "a reduced pool must show, or the comparison sees nothing"


def test_an_equal_run_in_two_processes_has_the_same_bytes(
    clean: Path, tiny_suite: Path, tmp_path: Path, replaycheck: Run
) -> None:
    out = tmp_path / "again"
    assert replaycheck("run", tiny_suite, "--out", out, "--workers", 2).code == 0
    assert deterministic_files(out) == deterministic_files(clean)


def test_a_run_cut_short_is_completed_to_the_same_bytes(
    clean: Path, tiny_suite: Path, tmp_path: Path, replaycheck: Run
) -> None:
    out = tmp_path / "half"
    shutil.copytree(clean, out)
    for name in ("result.json", "divergences.parquet", "report.html"):
        (out / name).unlink()
    for folder in (*TABLES, "groups"):
        next(path for path in (out / folder).iterdir() if "edges_64" in path.name).unlink()
    assert replaycheck("run", tiny_suite, "--resume", out, "--workers", 1).code == 0
    assert deterministic_files(out) == deterministic_files(clean)


def test_the_seeded_fault_exits_1_and_is_named_in_words(tiny_suite: Path, tmp_path: Path, replaycheck: Run) -> None:
    out = tmp_path / "faulty"
    outcome = replaycheck("run", tiny_suite, "--fault", "bf16-snapshot", "--out", out, "--workers", 1)
    assert outcome.code == 1
    result = json.loads((out / "result.json").read_text())
    sentence = next(found["sentence"] for found in result["findings"] if found["code"] == "RC101")
    assert sentence.startswith("In the fp32 and fp16 pools: snapshots inside")
    assert "all 6 KDA layers (0, 1, 3, 4, 5, 7), both heads" in sentence
    assert "Clean are" in sentence and "the bf16 pool" in sentence and "on the grid (label final-grid" in sentence
    failed = {gate["name"] for gate in result["gates"] if gate["verdict"] == "fail"}
    assert {"logits-bits", "restored-state", "provenance"} <= failed
    bits = {cell["name"].split("/")[-1]: cell["bits_differ"] for cell in result["cells"] if cell["effect"] == "exact"}
    assert bits["bf16"] == 0 and bits["fp32"] > 0 and bits["fp16"] > 0
    assert sentence in (out / "report.html").read_text().replace("&#39;", "'")


def test_a_run_without_any_hit_is_vacuous_not_a_pass(tiny_suite: Path, tmp_path: Path, replaycheck: Run) -> None:
    group = json.loads((tiny_suite.parent / "tiny.jsonl").read_text().splitlines()[0])
    group["requests"] = group["requests"][:1]
    single = tmp_path / "single.jsonl"
    single.write_text(json.dumps(group) + "\n")
    outcome = replaycheck("run", tiny_suite, "--traces", single, "--out", tmp_path / "run", "--workers", 1)
    assert outcome.code == 5


def test_json_is_one_object_on_stdout(clean: Path, replaycheck: Run) -> None:
    outcome = replaycheck("gate", clean, "--json")
    assert outcome.code == 0 and json.loads(outcome.out)["gates"]


def test_a_run_compared_with_itself_shows_no_difference(clean: Path, replaycheck: Run) -> None:
    outcome = replaycheck("compare", clean, clean)
    assert outcome.code == 0 and "differ" in outcome.out


def test_dry_run_says_who_computes_what_and_writes_nothing(tiny_suite: Path, tmp_path: Path, replaycheck: Run) -> None:
    outcome = replaycheck("run", tiny_suite, "--dry-run", "--no-calibrate", "--out", tmp_path / "no")
    assert outcome.code == 0 and "split-rounded" in outcome.out
    assert not (tmp_path / "no").exists()


def started(suite: Path, out: Path) -> subprocess.Popen[str]:
    """A run in a process of its own, whose two workers are about to start."""
    command = [sys.executable, "-m", "replaycheck.cli.main", "run", str(suite), "--workers", "2", "--out", str(out)]
    # A shell's background job ignores interrupts and hands that on; the run must start as in a terminal.
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    next(line for line in process.stderr if "2 workers" in line)
    return process


def test_an_interrupt_ends_workers_and_run_at_once_with_130(tiny_suite: Path, tmp_path: Path) -> None:
    process = started(tiny_suite, tmp_path / "run")
    process.send_signal(signal.SIGINT)
    # Left to themselves the workers would take longer than this for their groups.
    assert process.wait(timeout=30) == 130
    assert (tmp_path / "run" / "environment.json").exists() and not (tmp_path / "run" / "result.json").exists()
