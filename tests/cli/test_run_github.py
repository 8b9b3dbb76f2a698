"""What ``run`` leaves for a CI around the replay itself: annotations, the step's page, and a junit.xml of a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import junitparser
import pytest

from replaycheck.errors import EngineEnvironmentError
from replaycheck.replay.store import Run
from tests import synthetic_result as made
from tests import synthetic_run as syn

Command = Callable[..., Any]


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails, without the replay."""

    def run_whole(settings: object, how: object, out: Path, *rest: object) -> tuple[Run, object]:
        result = made.whole(out, syn.louder)
        return Run(out), result

    monkeypatch.setattr("replaycheck.replay.run.run_whole", run_whole)


def test_a_failed_run_annotates_and_adds_its_summary(
    replaycheck: Command, replayed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    outcome = replaycheck("run", "--out", tmp_path / "run", "--github")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].startswith("::error file=replaycheck/gates/exact.toml,line=")
    assert page.read_bytes() == (tmp_path / "run" / "summary.md").read_bytes()


def test_with_json_stdout_is_one_object(replaycheck: Command, replayed: None, tmp_path: Path) -> None:
    outcome = replaycheck("run", "--out", tmp_path / "run", "--github", "--json")
    assert json.loads(outcome.out)["summary"]["verdict"] == "fail"
    assert "::error " in outcome.err


def test_a_crash_is_an_error_in_junit_xml(
    replaycheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_whole(settings: object, how: object, out: Path, *rest: object) -> None:
        made.started(out)
        raise EngineEnvironmentError("the server is gone")

    monkeypatch.setattr("replaycheck.replay.run.run_whole", run_whole)
    outcome = replaycheck("run", "--out", tmp_path / "run")
    assert outcome.code == 4
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "run" / "junit.xml"))
    assert (suite.name, suite.errors) == ("quick", 1)
