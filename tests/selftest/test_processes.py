"""``selftest`` leaves no worker behind, however it ends; ``--gates`` admits files and does nothing else."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replaycheck.selftest import run as module
from tests.scale.conftest import environment
from tests.scale.test_kill import alive, children, wait_for

Run = Callable[..., Any]

EXAMPLE = Path(__file__).parents[2] / "examples" / "gates.toml"


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    """Two workers take seconds to start, so a signal finds them at work or on their way to it."""
    words = ("selftest", "--fault", "conv-late", "--fault", "restore-late", "--workers", "2", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "replaycheck", *words],
        env=environment(),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_selftest(running: subprocess.Popen[bytes], number: int) -> None:
    wait_for(lambda: len(children(running)) == 2, "two workers")
    workers = children(running)
    running.send_signal(number)
    running.wait(timeout=60)
    wait_for(lambda: not any(map(alive, workers)), "the end of the workers")


def test_gates_are_admitted_and_no_matrix_is_run(
    replaycheck: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(shutil.copy(EXAMPLE, tmp_path))
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(module, "admission", lambda files, model, say: asked.append(files) or [])
    monkeypatch.setattr(module, "plan", lambda *_, **__: pytest.fail("a matrix was planned"))
    outcome = replaycheck("selftest", "--gates", file, "--json")
    assert outcome.code == 0, outcome.err
    assert asked == [(str(file),)]
    found = json.loads(outcome.out)
    assert (found["faults"], found["confusion"]) == ([], None)


def test_files_and_faults_together_are_refused(replaycheck: Run) -> None:
    outcome = replaycheck("selftest", "--gates", EXAMPLE, "--fault", "conv-late")
    assert outcome.code == 2
    assert "give one" in outcome.err
