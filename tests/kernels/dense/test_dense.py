"""The dense kernels: errors against float64, and bits that don't depend on what else is computed.

Without a GPU they run in Triton's interpreter on small shapes, which proves indices, masks and maths, not the GPU's bits;
with one, the same checks run on it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from replaycheck_kernels import dense
from replaycheck_kernels.precision import Precision
from tests.kernels.dense import references

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, object]]:
    """What the checks print, run once in a child."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton isn't installed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "kernels")))}
    if device == "cpu":
        environment |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.kernels.dense.checks", device]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "operation", ["linear", "norm", "gated", "swiglu", "add", "convolution", "attention-bf16", "attention-fp32"]
)
def test_errors_are_within_what_fp32_accumulation_predicts(lines: list[dict[str, object]], operation: str) -> None:
    ratios = {str(x["check"]): x["ratio"] for x in lines if "ratio" in x and str(x["check"]).startswith(operation)}
    assert ratios
    assert not {name: found for name, found in ratios.items() if not float(str(found)) <= 1}


@pytest.mark.parametrize(
    "kind", ["rows", "view", "rounding", "alone", "neighbours", "windows", "single", "order", "regrouped"]
)
def test_no_bit_depends_on_what_else_is_computed(lines: list[dict[str, object]], kind: str) -> None:
    """rows: alone, in packs, permuted, beside NaN. view: strided rows. rounding: the fp32 result rounded once to nearest.
    alone, neighbours: a sequence of a pack. windows: the inputs themselves. single, order, regrouped: blocks of queries."""
    found = {str(x["check"]): x["differ"] for x in lines if "differ" in x and str(x["check"]).endswith(kind)}
    assert found
    assert not {name: count for name, count in found.items() if count}


def test_a_bound_is_tight_enough_to_see_a_rounded_operand() -> None:
    """bf16 operands that weren't bf16 before: 2^-9 each, a hundred times the bound of 24 terms."""
    draws = torch.Generator().manual_seed(0)
    x, weight = torch.randn(16, 24, generator=draws), torch.randn(24, 24, generator=draws)
    value, bound = references.linear(x, weight)
    error = (references.linear(x.bfloat16(), weight)[0] - value).abs()
    assert float((error / bound).median()) > 10


def test_query_blocks_cover_every_query_once_and_stay_in_a_sequence() -> None:
    lengths = (0, 1, 16, 0, 17, 33, 0)
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    blocks = dense.query_blocks(offsets, sum(lengths))
    spans = [(f, f + n) for f, n in zip(blocks.first.tolist(), blocks.count.tolist(), strict=True) if n]
    assert [q for begin, end in spans for q in range(begin, end)] == list(range(sum(lengths)))
    owner = dense.token_rows(offsets, sum(lengths)).tolist()
    assert owner == [r for r, n in enumerate(lengths) for _ in range(n)]
    assert all(len(set(owner[begin:end])) == 1 and end - begin <= 16 for begin, end in spans)
    assert len(spans) == 1 + 1 + 2 + 3


def test_weights_are_narrowed_only_where_that_is_exact() -> None:
    weight = torch.tensor([[1.0, 1 + 2.0**-7], [2.0**-30, 3.0]])
    assert dense.prepare_weight(weight, Precision.BF16).dtype is torch.bfloat16
    assert dense.prepare_weight(weight, Precision.FP16).dtype is torch.float32  # 2^-30 is below fp16's grid
    assert dense.prepare_weight(weight + 2.0**-9, Precision.BF16).dtype is torch.float32
    assert dense.prepare_weight(weight.bfloat16(), Precision.FP32).dtype is torch.float32


def test_arguments_that_a_kernel_cannot_take_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    x, weight = torch.ones(2, 8), torch.ones(8, 8)
    with pytest.raises(ValueError, match=r"weight is on cpu.*CUDA"):
        dense.linear(x, weight, Precision.FP32)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match=r"weight has shape \(8, 8\); needed: \(-1, 4\)"):
        dense.linear(x[:, :4], weight, Precision.FP32)
    with pytest.raises(ValueError, match=r"round to fp32, bf16, fp16, not tf32"):
        dense.add_rounded(x, x, Precision.TF32)
    with pytest.raises(ValueError, match="multiples of 16 up to 256"):
        dense.attend(x.view(2, 1, 8), x.view(2, 1, 8), x.view(2, 1, 8), *[torch.ones(2, dtype=torch.int32)] * 3, 1.0)
