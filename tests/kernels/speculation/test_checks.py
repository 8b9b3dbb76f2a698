"""The exact checks: all exact on our kernels, and each one fails on a kernel with the fault that it is for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.recipe import EXACT, SGLANG
from replaycheck_kernels.speculation.backend import TORCH, Backend
from replaycheck_kernels.speculation.check_methods import METHODS, method_check
from replaycheck_kernels.speculation.checks import CHECKS, Target, run_checks
from replaycheck_kernels.speculation.commit import CommitPlan
from replaycheck_kernels.speculation.copies import CopyPlan
from replaycheck_kernels.speculation.methods import CopyBack

WIDTHS = (1, 3)


@pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)
def test_our_own_are_exact(recipe: Any) -> None:
    answers = list(run_checks(Target(TORCH, recipe=recipe, widths=WIDTHS)))
    assert [answer.name for answer in answers if not answer.exact] == []
    assert len(answers) == len(CHECKS) + len(METHODS)


def writes_the_pool(*args: Any) -> Any:
    done = TORCH.verify(*args)
    args[1][args[2]] += 1
    return done


def raw_keys_normalised(window: Any, pool: Tensor, slots: Tensor, recipe: Any) -> Any:
    """F56: the records keep another tensor than the key before its norm."""
    done = TORCH.verify(window, pool, slots, recipe)
    return replace(done, records=replace(done.records, key=done.records.key * 2))


def loses_bits(pool: Tensor, records: Any, *rest: Any) -> None:
    """F9: corrections in bf16."""
    TORCH.rebuild(pool, replace(records, correction=records.correction.bfloat16().float()), *rest)


def one_token_less(pool: Tensor, records: Any, plan: CommitPlan, *rest: Any) -> None:
    """F53: the boundary's state is that of one token earlier."""
    TORCH.rebuild(pool, records, replace(plan, boundary_length=plan.boundary_length - 1), *rest)


def without_the_one(accepted: Tensor, lengths: Tensor, source: Tensor, width: int, align: Any = None) -> CommitPlan:
    """F52: the final column of a state that ends on a boundary is the next block's."""
    plan = TORCH.plan(accepted, lengths, source, width, align)
    if align is None:
        return plan
    column = ((align.computed + plan.length) // align.block).clamp(max=align.table.shape[1] - 1)
    return replace(plan, final=torch.where(plan.length > 0, align.table.gather(1, column[:, None])[:, 0], 0))


def shifted_window(conv: Tensor, plan: CommitPlan, history: int, aligned: bool) -> None:
    """F29: the window starts one column late."""
    TORCH.compact(
        conv, replace(plan, length=(plan.length + 1).clamp(max=conv.shape[2] - history + 1)), history, aligned
    )


def null_written(temporal: tuple[Tensor, Tensor], conv: tuple[Tensor, Tensor], plan: CopyPlan, history: int) -> None:
    """F44: a pair with a null slot is copied, too."""
    TORCH.copy(temporal, conv, plan, history)
    temporal[1][:, 0] = 0


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "verify-read-only": ("verify", writes_the_pool),
    "verify": ("verify", raw_keys_normalised),
    "recover-commit": ("rebuild", loses_bits),
    "recover-boundary": ("rebuild", one_token_less),
    "commit-plan": ("plan", without_the_one),
    "conv-compaction": ("compact", shifted_window),
    "slot-copy": ("copy", null_written),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_check_catches_its_fault(name: str) -> None:
    field, wrong = FAULTS[name]
    broken: Backend = replace(TORCH, **{field: wrong})  # type: ignore[arg-type]
    answers = {answer.name: answer for answer in run_checks(Target(broken, widths=WIDTHS))}
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
