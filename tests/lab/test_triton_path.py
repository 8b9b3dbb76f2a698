"""The lab's Triton path against its CPU path, in Triton's interpreter: wiring, indices and maths, not a GPU's bits."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS, WIDEST = 4, 96
#: Both paths sum at most 96 products in fp32, in unlike orders, in each of four layers.
FP32 = LAYERS * WIDEST * 2.0**-24
#: An activation next to the middle between two bf16 values may go to the other one, in each layer.
BF16 = LAYERS * 2.0**-8


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton isn't installed")
@pytest.mark.parametrize(("recipe", "allowed"), [("exact", FP32), ("sglang", BF16)])
def test_a_pass_has_the_values_of_the_cpu_path(model: Path, recipe: str, allowed: float) -> None:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "kernels")))
    environment = os.environ | {"PYTHONPATH": paths, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.lab.interpreted", str(model), recipe]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *rows, last = (json.loads(line) for line in done.stdout.splitlines())
    assert len(rows) == 6
    for row in rows:
        assert row["logits"] <= allowed * row["size"]
        assert row["state"] <= allowed
        assert row["pages"]
        assert row["first conv"] or recipe == "exact"
    assert last["restored"]
