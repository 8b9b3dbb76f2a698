"""What environment.json says, and what it must never say."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from replaycheck.replay.environment import describe, differences, finished


def test_versions_variables_and_processor_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    environment = describe({"suite": "s"}, "cpu", command=["replaycheck", "run"])
    assert environment.variables["OMP_NUM_THREADS"] == "3"
    assert environment.versions["numpy"]
    assert environment.cores > 0
    assert "sk-secret" not in environment.model_dump_json()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["run", "--api-key", "sk-1", "--seed", "3"], ("run", "--api-key", "***", "--seed", "3")),
        (["run", "--token=sk-1"], ("run", "--token=***")),
        (["run", "--url", "http://me:pw@host/v1"], ("run", "--url", "http://***@host/v1")),
        (["run", "--tokens", "64"], ("run", "--tokens", "64")),
    ],
)
def test_credentials_of_the_command_line_are_blanked(given: list[str], kept: tuple[str, ...]) -> None:
    assert describe({}, "cpu", command=given).command == kept


def test_end_adds_times_only() -> None:
    begun = datetime.fromisoformat(describe({}, "cpu", command=[]).started) - timedelta(minutes=90)
    start = describe({}, "cpu", command=[]).model_copy(update={"started": begun.isoformat()})
    end = finished(start, {"replay": 3.5})
    assert end.seconds is not None and end.finished is not None
    assert 90 * 60 <= end.seconds < 91 * 60
    assert datetime.fromisoformat(end.finished) > begun and end.cpu_seconds == {"replay": 3.5}
    assert differences(start, end) == {}


def test_differences_name_what_could_explain_other_bits() -> None:
    one = describe({"seed": "0"}, "cpu", command=[])
    other = one.model_copy(update={"inputs": {"seed": "1"}, "variables": {"MKL_CBWR": "AVX2"}, "device": "cuda"})
    found = differences(one.model_copy(update={"variables": {}}), other)
    assert found == {"device": ("cpu", "cuda"), "inputs.seed": ("0", "1"), "variables.MKL_CBWR": (None, "AVX2")}


def test_torch_is_not_imported() -> None:
    code = (
        "import sys; from replaycheck.replay import environment, store, assemble, across, rejudge; "
        "environment.describe({}, 'cpu'); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "program", ["/home/me/.venv/bin/replaycheck", "replaycheck", "/somewhere/replaycheck/cli/main.py"]
)
def test_the_command_names_the_program_and_not_where_it_lies(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [program, "run", "--seed", "1"])
    assert describe({}, "cpu").command == ("replaycheck", "run", "--seed", "1")
