"""The Triton forms without a GPU: what their launchers refuse, and that they compile for one (sm_90)."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest
import torch

from replaycheck_kernels.recipe import FLA, SGLANG, SGLANG_GDN, VLLM
from replaycheck_kernels.speculation.triton.support import check, check_plan, check_slots, rsqrt

POOL = torch.zeros(3, 2, 4, 4)


def test_a_recipe_that_rounds_beta_is_refused() -> None:
    with pytest.raises(ValueError, match="'sglang-gdn' doesn't"):
        check(SGLANG_GDN, (), POOL)
    check(SGLANG, (), POOL)


def test_layouts_that_would_be_misread_are_refused() -> None:
    with pytest.raises(ValueError, match="inputs must be contiguous"):
        check(VLLM, (torch.zeros(4, 3).t(),), POOL)
    with pytest.raises(ValueError, match="a slot of the pool must be contiguous"):
        check_slots(POOL.transpose(2, 3))
    check_slots(POOL.transpose(0, 1)[:, 0:1].transpose(0, 1))
    with pytest.raises(ValueError, match="plan tensors must be contiguous"):
        check_plan(torch.zeros(4, 2)[:, 0])


@pytest.mark.parametrize(
    ("name", "value"), [("decay_rule", "swapped"), ("decay_unit", "mixed"), ("scale_times", 2), ("norm_epsilon", 0.0)]
)
def test_a_fault_in_the_arithmetic_is_for_torch(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"have no other {name}; recipe 'sglang' does: use torch"):
        check(replace(SGLANG, **{name: value}), (), POOL)


def test_norms_are_divided_or_rsqrt() -> None:
    assert rsqrt(replace(VLLM, recurrent_norm="rsqrt")) and not rsqrt(FLA)
    with pytest.raises(ValueError, match="asks for a reciprocal"):
        rsqrt(replace(VLLM, recurrent_norm="reciprocal"))


BF16, FP32, PLAN = "*bf16", "*fp32", "*i64"
TYPES = {
    **dict.fromkeys(("q", "k", "v", "a", "b", "o", "key", "decay", "conv"), BF16),
    **dict.fromkeys(("A_log", "dt_bias", "pool", "correction"), FP32),
    **dict.fromkeys(
        ("slots", "lengths", "source", "finals", "boundaries", "aheads", "accepted", "table", "computed"), PLAN
    ),
    **dict.fromkeys(
        ("length_out", "final_out", "boundary_out", "ahead_out", "sources", "destinations", "offsets"), PLAN
    ),
    **dict.fromkeys(("lower_bound", "scale"), "fp32"),
    **dict.fromkeys(("state_from", "state_to"), "*i32"),
    **dict.fromkeys(("conv_from", "conv_to"), "*i16"),
}
STATE = {
    "H": 2,
    "HV": 4,
    "K": 128,
    "V": 96,
    "Q": 2,
    "BK": 128,
    "BV": 8,
    "PER_HEAD": False,
    "BOUNDED": True,
    "RSQRT": True,
}
KERNELS: list[tuple[str, str, dict[str, Any]]] = [
    ("verify", "_verify_kernel", STATE),
    ("verify", "_verify_kernel", {**STATE, "PER_HEAD": True, "BOUNDED": False, "RSQRT": False}),
    ("commit", "_rebuild_kernel", {**STATE, "ALIGN": True}),
    ("commit", "_rebuild_kernel", {**STATE, "ALIGN": False, "PER_HEAD": True}),
    ("commit", "_compact_kernel", {"COLUMNS": 3, "BLOCK_COLUMNS": 4, "BLOCK": 256, "ALIGN": True}),
    ("commit", "_plan_kernel", {"Q": 8, "ALIGN": True}),
    ("copies", "_copy_kernel", {"BLOCK": 1024, "LAYERS": 1}),
    ("copies", "_copy_kernel", {"BLOCK": 256, "LAYERS": 4}),
]


@pytest.mark.parametrize(
    ("module", "name", "constants"), KERNELS, ids=[f"{n}-{i}" for i, (_, n, _) in enumerate(KERNELS)]
)
def test_kernels_compile_for_hopper(module: str, name: str, constants: dict[str, Any]) -> None:
    pytest.importorskip("triton")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(importlib.import_module(f"replaycheck_kernels.speculation.triton.{module}"), name)
    signature = {n: "constexpr" if n in constants else TYPES.get(n, "i64") for n in kernel.arg_names}
    source = ASTSource(kernel, signature, constexprs={(kernel.arg_names.index(n),): v for n, v in constants.items()})
    assert b"sm_90" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"].encode()
