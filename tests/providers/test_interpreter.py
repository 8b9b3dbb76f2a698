"""The interpreter's repairs, and every kernel that is there run in it against the oracle.

The runs need Triton 3.7 or 3.8 (SGLang's block pointers went in 3.9) and the engines' kernel files: installed, or in folders
named after them below ``REPLAYCHECK_KERNELS``. CI has neither; ``make test`` doesn't install them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.providers import Capabilities, ModelKind, ProviderKernel
from replaycheck_kernels.providers.interpreted import case, compare, measure
from replaycheck_kernels.providers.interpreter import narrow, repair_triton, widen
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH

FOLDER = os.environ.get("REPLAYCHECK_KERNELS")


def bits(x: torch.Tensor) -> np.ndarray:
    return x.view(torch.int16).numpy().view(np.uint16)


def test_narrowing_is_torchs_cast() -> None:
    draws = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(1 << 16, generator=draws) * 2.0**e for e in (-140, -20, 0, 100)])
    ties = (torch.arange(1 << 12, dtype=torch.int32) * 0x8000 + 0x3F800000).view(torch.float32)
    x = torch.cat([x, ties, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 3.4e38])])
    assert np.array_equal(narrow(x.numpy()), bits(x.bfloat16()))


def test_nan_stays_nan() -> None:
    all_ones = np.array([0x7FFFFFFF, 0xFFFFFFFF], dtype=np.uint32).view(np.float32)
    assert np.isnan(widen(narrow(all_ones))).all()


def test_widening_is_exact_for_every_pattern() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    wide = torch.from_numpy(patterns.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert np.array_equal(widen(patterns).view(np.uint32), wide.view(np.uint32))


def test_scalars_keep_their_shape() -> None:
    assert narrow(np.float32(1.0)).shape == () and narrow(np.ones((2, 3))).shape == (2, 3)


def test_repairs_are_refused_outside_a_process_for_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        repair_triton()


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"nobody|triton"):  # without Triton it stops earlier
        measure("nobody")


def folder_of(name: str) -> Path | None:
    """Where the kernel files are; skips the test where they aren't."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton isn't installed")
    if FOLDER and (Path(FOLDER) / name / name).is_dir():
        return Path(FOLDER) / name
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} isn't installed and REPLAYCHECK_KERNELS has no folder {name}")
    return None


@pytest.mark.parametrize("bound", [None, -5.0], ids=["softplus", "lower-bound"])
@pytest.mark.parametrize("name", ["fla", "sglang", "vllm"])
def test_kernels_are_within_what_their_claims_predict(name: str, bound: float | None) -> None:
    folder = folder_of(name)
    options = ["--lengths=70,33", "--key=32", "--value=48"]
    options += ([f"--kernels-path={folder}"] if folder else []) + ([f"--lower-bound={bound}"] if bound else [])
    lines = measure(name, *options)
    ran = [line for line in lines if "error" not in line]
    assert ran
    for line in lines:
        if "error" in line:
            assert "can't run" in line["error"] or "needs a GPU" in line["error"], line
    for line in ran:
        assert line["o"] < line["allowed_o"] and line["state"] < line["allowed_state"], line
        assert line.get("restored", True), line


def test_module_repair_replaces_aliases_and_ranges() -> None:
    """In this process Triton itself is untouched: only the given module's names change."""
    pytest.importorskip("triton")
    import triton.language as tl

    from replaycheck_kernels.providers.interpreter import repair_modules

    module = ModuleType("kernels")
    vars(module).update(exp=tl.exp, custom_device_ctx=torch.cuda.device, other=1)
    repair_modules({"kernels": module})
    assert module.exp is not tl.exp and module.other == 1
    assert [index.to(None) for index in module.range(2)] == [0, 1]
    with module.custom_device_ctx(0):
        pass


def ours(fault: bool) -> ProviderKernel:
    """Our recurrent form, or the same with beta left raw."""

    def wrong(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        return RECURRENT_TORCH.forward(x, initial, rows, replace(recipe, beta_site="nowhere"))

    kernel = replace(RECURRENT_TORCH, forward=wrong) if fault else RECURRENT_TORCH
    return ProviderKernel(ModelKind.KDA, kernel, Capabilities(claims=("exact",)))


@pytest.mark.parametrize("fault", [False, True], ids=["right", "raw-beta"])
def test_the_comparison_tells_right_from_wrong(fault: bool) -> None:
    line = compare(ours(fault), *case(ModelKind.KDA, [70, 33], 8, 12))
    assert (line["o"] > line["allowed_o"]) == (line["state"] > line["allowed_state"]) == fault


def test_the_comparison_goes_on_from_a_snapshot() -> None:
    line = compare(ours(False), *case(ModelKind.KDA, [70, 33], 8, 12))
    assert line["restored"] and line["source"] == "accumulator" and line["snapshot"] < line["allowed_state"]
