"""kill -9 at several moments: nothing but the parts in flight is lost, and --resume ends with the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replaycheck.replay import pool
from replaycheck.replay.parts import Run as Folder
from replaycheck.replay.parts import read_part
from replaycheck.replay.run import run_whole
from replaycheck.replay.settings import Settings, resolve
from replaycheck.replay.stage import How
from tests.scale.conftest import SESSIONS, command, environment, files_of, parts

Run = Callable[..., Any]


@pytest.fixture
def started(suite: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []

    def start(*options: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command(suite, "--out", tmp_path / "run", *options),
            env=environment(),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def settings(suite: Path, small_parts: None) -> Settings:
    return resolve(suite, subject="null")[0]


def wait_for(found: Callable[[], bool], what: str) -> None:
    for _ in range(24_000):
        if found():
            return
        time.sleep(0.005)
    raise AssertionError(f"{what} didn't happen within 120 s")


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Worker processes; the one beside them keeps track of shared memory."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not listed.exists():
        pytest.skip("this system doesn't list a process's children")
    found = []
    for child in listed.read_text().split():
        try:
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("after", [0, 7])
def test_the_run_is_killed_and_resumed_to_the_same_bytes(
    after: int, started: Callable[..., Any], whole: Path, tmp_path: Path, settings: Settings
) -> None:
    out = tmp_path / "run"
    process = started("--workers", 1)
    wait_for(lambda: (out / "environment.json").exists() and len(parts(out)) >= after, f"{after} parts")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {name: data for name, data in files_of(out).items() if not Path(name).name.startswith(".")}
    assert not (out / "result.json").exists()
    assert all(files_of(whole)[name] == data for name, data in before.items()), "what is there is whole"
    lines: list[str] = []
    run_whole(settings, How(1), resume=out, say=lines.append)
    left = SESSIONS - 4 * sum(name.startswith("groups/") for name in before)
    assert lines[0].startswith(f"{left} groups"), "only what is missing is done"
    assert files_of(out) == files_of(whole)


def test_workers_end_with_a_killed_parent(started: Callable[..., Any]) -> None:
    process = started("--workers", 2)
    wait_for(lambda: len(children(process)) == 2, "two workers")
    workers = children(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(map(alive, workers)), "the end of the workers")


def test_a_killed_worker_changes_nothing(started: Callable[..., Any], whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = started("--workers", 2)
    wait_for(lambda: (out / "environment.json").exists() and bool(parts(out)) and bool(children(process)), "a part")
    os.kill(children(process)[0], signal.SIGKILL)
    assert process.wait(timeout=300) == 0
    assert "a worker process died" in (out / "log.txt").read_text()
    assert files_of(out) == files_of(whole)


def test_a_terminated_run_is_partial_and_no_pass(started: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = started("--workers", 1)
    wait_for(lambda: (out / "environment.json").exists() and bool(parts(out)), "a part")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 130
    assert not (out / "result.json").exists()
    first = parts(out)[0]
    assert read_part(Folder(out), "pairs", first).num_rows == 4 * 4 * 10, "what was written can be read"


def test_workers_that_always_die_are_an_environment_error(
    suite: Path, small_parts: None, tmp_path: Path, replaycheck: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LOSSES", 1)
    outcome = replaycheck(
        "run", suite, "--subject", "tests.scale.dying:factory", "--out", tmp_path / "run", "--workers", 2
    )
    assert outcome.code == 4
    assert "died 2 times" in outcome.err
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["finished"] is None
