"""``replaycheck bisect``: what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.cli.main import invoke
from replaycheck.errors import ExitCode
from tests.report.conftest import synthesise


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give RUN"),
        (["--git", "a..b"], "go together"),
        (["--run", "true"], "go together"),
        (["somewhere", "--git", "a..b", "--run", "true"], "take no RUN"),
    ],
)
def test_half_a_question_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bisect", *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bisect", str(tmp_path)]) == ExitCode.USAGE
    assert "isn't a run" in capsys.readouterr().err


def test_a_run_that_was_not_finished_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthesise(tmp_path / "run", True, positions=4)
    (tmp_path / "run" / "result.json").unlink()
    assert invoke(["bisect", str(tmp_path / "run")]) == ExitCode.USAGE
    assert "has no result.json; finish it with run --resume" in capsys.readouterr().err
