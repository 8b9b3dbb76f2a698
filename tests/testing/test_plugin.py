"""The pytest plugin: it costs nothing until a fixture is asked for, and the example of a kernel author runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from replaycheck.probes.properties import NAMES

ROOT = Path(__file__).parents[2]
PLUGIN = "replaycheck.pytest_plugin"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another pytest, with the plugin, whether the package is installed or not."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )


def test_the_entry_point_is_the_module() -> None:
    """Under another name `-p replaycheck.pytest_plugin` would register it twice, which pytest refuses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_loading_it_imports_nothing_but_itself() -> None:
    code = f"import json, sys, pytest; before = set(sys.modules); import {PLUGIN}; "
    code += "print(json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["replaycheck", PLUGIN]


def test_a_session_without_its_fixtures_stays_light(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\ndef test_light():\n    assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


MINE = """
import pytest

def test_each(kernel_property):
    pass

@pytest.mark.parametrize("kernel_property", ["alone"])
def test_named(kernel_property):
    pass

def test_chosen(assert_kernel, assert_replay_consistent):
    for check in (assert_kernel, assert_replay_consistent):
        assert check.keywords == {"device": "cpu", "seed": 7}
"""


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Tests that passed in one session with the example, its layout probe and its replay alone, and ``MINE``.

    The other sixteen probes take a minute of the example's loop in Python.
    """
    mine = tmp_path_factory.mktemp("mine") / "test_mine.py"
    mine.write_text(MINE)
    wanted = "test_mine or (test_probes and layout) or test_replay"
    done = run_pytest(
        ROOT, "examples/test_my_kernel.py", str(mine), "-k", wanted, "--replaycheck-seed", "7", "-rp", "-o", "addopts="
    )
    assert done.returncode == 0, done.stdout
    return [line.partition("::")[2] for line in done.stdout.splitlines() if line.startswith("PASSED")]


def test_the_example_runs_on_an_honest_kernel(passed: list[str]) -> None:
    assert {"test_probes[layout]", "test_replay"} <= set(passed)


def test_a_property_is_a_test_unless_the_test_names_its_own(passed: list[str]) -> None:
    assert [each for each in passed if each.startswith("test_each")] == [f"test_each[{name}]" for name in NAMES]
    assert [each for each in passed if each.startswith("test_named")] == ["test_named[alone]"]


def test_device_and_seed_come_from_the_command_line(passed: list[str]) -> None:
    assert "test_chosen" in passed
