"""action.yml and the example workflow: nothing that a pull request says becomes code, and a run is kept if it fails, too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOW = yaml.safe_load((ROOT / "examples" / "github-workflow.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
JOB: dict[str, Any] = WORKFLOW["jobs"]["replaycheck"]

FAKE = """#!{python}
import json, os, sys
with open(os.environ["SEEN"], "a") as seen:
    seen.write(json.dumps(sys.argv) + "\\n")
sys.exit(int(os.environ.get("CODE", "0")))
"""
HOSTILE = "a'b\"$(touch pwned)`touch pwned`; touch pwned & | * \\ ${HOME} é"


def step(name: str) -> dict[str, Any]:
    return next(each for each in STEPS if each["name"] == name)


def test_no_script_holds_an_expression() -> None:
    scripts = [each["run"] for each in [*STEPS, *JOB["steps"]] if "run" in each]
    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


def test_scripts_read_inputs_from_variables_that_are_all_used() -> None:
    for each in STEPS:
        for name in each.get("env", {}):
            assert f"${name}" in each["run"] or name.startswith("PIP_"), name
        assert "run" not in each or each["shell"] == "bash"


def test_every_input_is_used_and_every_used_one_is_declared() -> None:
    used = set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    assert all({"description", "default"} <= each.keys() for each in ACTION["inputs"].values())
    assert set(JOB["steps"][1]["with"]) <= used


def test_the_run_is_kept_whatever_came_of_it() -> None:
    kept = step("Keep the run")
    assert kept["if"].startswith("always()")
    assert kept["uses"].startswith("actions/upload-artifact@")
    assert STEPS[-1] is kept


def test_used_actions_name_a_version() -> None:
    uses = [each["uses"] for each in [*STEPS, *JOB["steps"]] if "uses" in each]
    assert len(uses) == 4
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|REF)", each) for each in uses)


def test_the_workflows_token_can_only_read() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert JOB["steps"][0]["with"]["persist-credentials"] is False
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request_target" not in WORKFLOW[True]
    assert JOB["timeout-minutes"] <= 60


class Runner:
    """The action's scripts with programs that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen, self.output = folder, folder / "seen", folder / "output"
        for place in ("replaycheck-venv/bin/replaycheck", "replaycheck-venv/bin/python", "path/python"):
            program = folder / place
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(FAKE.format(python=sys.executable))
            program.chmod(0o755)

    def __call__(self, name: str, code: int = 0, **inputs: str) -> tuple[int, list[list[str]]]:
        """The step's exit code, and the command lines that it ran."""
        chosen = step(name)
        values = {key: str(each["default"]) for key, each in ACTION["inputs"].items()} | inputs
        given = {key: self._filled(value, values) for key, value in chosen["env"].items()}
        environment = {
            "PATH": f"{self.folder / 'path'}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_OUTPUT": str(self.output),
            "SEEN": str(self.seen),
            "CODE": str(code),
            **given,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", chosen["run"]]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, [json.loads(line) for line in self.seen.read_text().splitlines()]

    @staticmethod
    def _filled(value: str, inputs: dict[str, str]) -> str:
        name = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)
        return inputs[name[1]] if name else value


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_without_inputs_the_ci_preset_runs(runner: Runner) -> None:
    code, ((_, *arguments),) = runner("Run replaycheck")
    assert (code, arguments[:3]) == (0, ["run", "--github", "--out"])
    assert arguments[4:] == ["--subject=lab", "--preset=ci"]
    assert runner.output.read_text().splitlines() == [f"run={arguments[3]}", "exit-code=0"]


def test_each_line_is_one_argument_whatever_it_holds(runner: Runner) -> None:
    inputs = {"suite": HOSTILE, "gates": f"exact\n{HOSTILE}\n", "args": f"--seed\n7\n{HOSTILE}", "url": HOSTILE}
    code, ((_, *arguments),) = runner("Run replaycheck", **inputs, subject=HOSTILE)
    assert code == 0
    assert arguments[4:] == [
        f"--subject={HOSTILE}",
        f"--url={HOSTILE}",
        "--gates=exact",
        f"--gates={HOSTILE}",
        "--seed",
        "7",
        HOSTILE,
        "--",
        HOSTILE,
    ]
    assert not list(runner.folder.rglob("pwned"))


@pytest.mark.parametrize("code", [1, 5, 6])
def test_the_exit_code_is_that_of_the_run(runner: Runner, code: int) -> None:
    assert runner("Run replaycheck", code)[0] == code
    assert runner.output.read_text().splitlines()[-1] == f"exit-code={code}"


@pytest.mark.parametrize("index", ["", "https://example.org/a b"])
def test_the_index_is_one_argument_or_none(runner: Runner, index: str) -> None:
    code, (venv, install) = runner("Install replaycheck", **{"extra-index-url": index})
    assert code == 0
    assert venv[1:3] == ["-m", "venv"]
    assert install[1:] == ["-m", "pip", "install", "--quiet", *(["--extra-index-url", index] if index else []),
                           "${{ github.action_path }}"]  # fmt: skip
