"""The wheel holds both packages, the suites, the presets and the gates, and works outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_what_a_run_needs(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    shipped = {f"replaycheck/_assets/traces/{path.name}" for path in (ROOT / "traces").iterdir() if path.is_file()}
    gates = {f"replaycheck/gates/{path.name}" for path in (ROOT / "replaycheck" / "gates").glob("*.toml")}
    assert {"replaycheck/cli/main.py", "replaycheck_kernels/oracle.py"} | shipped | gates <= names
    assert "replaycheck/_assets/traces/quick.toml" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"replaycheck", "replaycheck_kernels"}


def test_the_wheel_works_outside_the_repository(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    wheel.extractall(site)
    code = "from replaycheck import assets; print(assets.suite_file('quick'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(done.stdout.strip()) == site / "replaycheck" / "_assets" / "traces" / "quick.toml"
