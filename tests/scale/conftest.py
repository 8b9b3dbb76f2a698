"""A suite for the null subject: 60 small sessions in parts of a few, so that a whole run takes a second."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from replaycheck.replay import batches
from tests.suites import suite_text

ROOT = Path(__file__).parent.parent.parent
SESSIONS = 60
SHAPE = Shape(turns=2, prompt=70, answer=5)
PART = 200
"""Observations of a part: five arms of ten positions, so four sessions."""

NOT_COMPARED = {"environment.json", "log.txt", "report.html", "junit.xml", "summary.md"}


GATES = """
schema = "replaycheck.gates/1"
name = "null"

[[gate]]
name = "bits"
metric = "positions-bits-differ"
scope = { effect = "exact" }
bound = 0
why = "The null subject says the same under every arm."
admitted_by = "bf16-snapshot"
min_traces = 1

[[gate]]
name = "conv"
metric = "conv-unequal"
bound = 0
why = "Its conv states depend on the position alone."
admitted_by = "conv-late"
min_traces = 1

[[gate]]
name = "hits"
metric = "missing-hits"
bound = 0
why = "It proves every hit that the plan has."
admitted_by = "lost-checkpoint"
min_traces = 1
"""


def command(suite: Path, *options: object) -> list[str]:
    """The command line of a run that works in parts of ``PART`` observations."""
    code = f"from replaycheck.replay import batches; batches.OBSERVATIONS, batches.SEPARATE = {PART}, 0; "
    code += "from replaycheck.cli.main import main; main()"
    return [sys.executable, "-c", code, "run", str(suite), "--subject", "null", *map(str, options)]


def environment() -> dict[str, str]:
    """A child finds the packages where this process found them; workers inherit it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels"), *filter(None, sys.path)])}


def files_of(run: Path) -> dict[str, bytes]:
    """Every file whose bytes equal runs share."""
    paths = (path for path in run.rglob("*") if path.is_file())
    return {str(path.relative_to(run)): path.read_bytes() for path in paths if path.name not in NOT_COMPARED}


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    write_sessions(folder / "sessions.jsonl", SESSIONS, SHAPE)
    (folder / "gates.toml").write_text(GATES)
    (folder / "suite.toml").write_text(
        suite_text("null", "sessions.jsonl", ("bf16",), gates=str(folder / "gates.toml"))
    )
    return folder / "suite.toml"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "OBSERVATIONS", PART)
    monkeypatch.setattr(batches, "SEPARATE", 0)


@pytest.fixture(scope="session")
def whole(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed, in one process."""
    from replaycheck.replay.run import run_whole
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.stage import How

    out = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "OBSERVATIONS", PART)
        patch.setattr(batches, "SEPARATE", 0)
        run_whole(resolve(suite, subject="null")[0], How(1), out)
    return out


@pytest.fixture
def run_here(suite: Path, small_parts: None, replaycheck: Callable[..., object]) -> Callable[..., object]:
    """``run_here("--out", DIR)`` runs the suite in this process."""

    def run(*options: object) -> object:
        return replaycheck("run", suite, "--subject", "null", *options)

    return run


def result(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "result.json").read_text())
    return found


def parts(run: Path) -> Sequence[str]:
    return sorted(path.stem for path in (run / "groups").glob("[!.]*.json"))
