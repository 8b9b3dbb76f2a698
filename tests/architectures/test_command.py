"""``probe architectures`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaycheck.cli.main import invoke
from replaycheck.subjects.transformers import load


def test_a_sweep_of_one_operation_is_written_and_fails_on_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["probe", "architectures", "--architecture", "lfm2", "--only", "left-later", "--workers", "1"]
    assert invoke([*arguments, "--out", str(out), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "result.json").read_text(encoding="utf-8"))
    (cell,) = printed["rows"][0]["cells"]
    assert cell["verdict"] == "fault" and cell["first_wrong"] == 40
    assert (out / "faults" / "lfm2-left-later.py").read_text(encoding="utf-8") == cell["script"]
    assert "lfm2" in (out / "architectures.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", [["--architecture", "mamba9"], ["--only", "nothing"]])
def test_an_unknown_name_is_a_usage_error(wrong: list[str], tmp_path: Path) -> None:
    assert invoke(["probe", "architectures", *wrong, "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_exit_code_4(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from replaycheck.architectures.discover import library

    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    library.cache_clear()
    monkeypatch.setattr(load, "import_module", absent)
    assert invoke(["probe", "architectures"]) == 4
    assert "pip install 'replaycheck[models]'" in capsys.readouterr().err
