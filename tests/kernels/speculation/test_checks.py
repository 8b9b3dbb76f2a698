"""The exact checks: all exact on our kernels, and each one fails on a kernel with the fault that it is for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replaycheck.faults import speculation
from replaycheck_kernels.recipe import EXACT, SGLANG
from replaycheck_kernels.speculation.backend import TORCH
from replaycheck_kernels.speculation.check_methods import METHODS, method_check
from replaycheck_kernels.speculation.checks import CHECKS, Target, run_checks
from replaycheck_kernels.speculation.methods import CopyBack

WIDTHS = (1, 3)


@pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)
def test_our_own_are_exact(recipe: Any) -> None:
    answers = list(run_checks(Target(TORCH, recipe=recipe, widths=WIDTHS)))
    assert [answer.name for answer in answers if not answer.exact] == []
    assert len(answers) == len(CHECKS) + len(METHODS)


FAULTS: dict[str, speculation.SpeculationFault] = {
    "verify-read-only": speculation.writes_the_pool,
    "verify": speculation.keys_scaled,
    "recover-commit": speculation.corrections_bf16,
    "recover-boundary": speculation.boundary_one_less,
    "commit-plan": speculation.column_of_the_next_block,
    "conv-compaction": speculation.window_one_late,
    "slot-copy": speculation.null_pair_is_copied,
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_check_catches_its_fault(name: str) -> None:
    answers = {answer.name: answer for answer in run_checks(Target(FAULTS[name](TORCH), widths=WIDTHS))}
    assert not answers[name].exact and (answers[name].values or name == "verify-read-only")


def test_a_method_that_rolls_back_one_token_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """F47, with the smallest example: the first window of more than one kept token."""
    original = CopyBack._copy_back
    monkeypatch.setattr(
        CopyBack, "_copy_back", lambda self, places, kept: original(self, places, (kept - 1).clamp(min=1))
    )
    answer = method_check("copy")("cpu", EXACT, (1, 2))
    assert not answer.exact and answer.values == {"window": 2, "kept": 2, "pool": "fp32"}


def test_triton_kernels_are_exact_in_the_interpreter() -> None:
    """In a child: the interpreter's repairs change all of Triton. Windows of 2, K = 32, V = 48 in tiles, HV = 2 H."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton isn't installed")
    command = [sys.executable, "-m", "replaycheck_kernels.speculation.checks", "--backend", "triton", "--interpret"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "kernels"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, "--recipe=vllm", "--widths=2"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(CHECKS) and all(answer["exact"] for answer in answers), done.stdout + done.stderr[-2000:]


def test_importing_the_package_needs_no_triton() -> None:
    code = "import sys; sys.modules['triton'] = None; from replaycheck_kernels.speculation.checks import CHECKS as c"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(len(c))"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.strip() == str(len(CHECKS)), done.stderr[-500:]
